"""What a profiled window says: pure functions from a trace to frozen results.

Device and CPU traces give the same results: where there is no device, operators stand in for
kernels. All arithmetic is in whole nanoseconds, so parts sum to their whole exactly.
"""
