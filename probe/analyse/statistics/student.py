"""Student's t distribution: how far an estimate may stray whose own spread is an estimate too.

Both functions take any degrees of freedom above zero, whole or not, as Welch's rule gives them.
The distribution function is the regularised incomplete beta function by its continued fraction
(Lentz), good to about 1e-12; quantiles are found in it by halving.
"""

import math

_TINY = 1e-300
_MOST_TERMS = 500
_CLOSE = 1e-13
_LARGE_DEGREES = 1e7
"""Beyond this the normal distribution is the same to ten digits, and the fraction converges ill."""


def probability_below(value: float, degrees: float) -> float:
    """P(T ≤ value)."""
    if math.isinf(value):
        return 1.0 if value > 0 else 0.0
    degrees = min(degrees, _LARGE_DEGREES)
    tail = 0.5 * _incomplete_beta(degrees / 2, 0.5, degrees / (degrees + value * value))
    return 1 - tail if value > 0 else tail


def quantile(probability: float, degrees: float) -> float:
    """The value below which T lies with this probability; 0 < probability < 1."""
    if probability < 0.5:
        return -quantile(1 - probability, degrees)
    low, high = 0.0, 1.0
    while probability_below(high, degrees) < probability:
        low, high = high, high * 2
    for _ in range(60):
        middle = (low + high) / 2
        if probability_below(middle, degrees) < probability:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _incomplete_beta(a: float, b: float, x: float) -> float:
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    # The fraction converges fast on one side of its peak only; the other side is its complement.
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(a, b, x) / a
    return 1 - front * _fraction(b, a, 1 - x) / b


def _fraction(a: float, b: float, x: float) -> float:
    upper = 1.0
    lower = 1 / _nonzero(1 - (a + b) * x / (a + 1))
    result = lower
    for term in range(1, _MOST_TERMS):
        even = a + 2 * term
        for numerator in (
            term * (b - term) * x / ((even - 1) * even),
            -(a + term) * (a + b + term) * x / (even * (even + 1)),
        ):
            lower = 1 / _nonzero(1 + numerator * lower)
            upper = _nonzero(1 + numerator / upper)
            result *= lower * upper
        if abs(lower * upper - 1) < _CLOSE:
            break
    return result


def _nonzero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
