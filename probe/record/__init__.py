"""Writing a run directory from inside a training job, without ever hurting it.

Standard library and the codec only: neither pandas nor pyarrow comes near the training path.
"""
