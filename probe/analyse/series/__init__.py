"""A run over time: the arrays that figures are drawn from, nothing thinned and nothing rounded."""
