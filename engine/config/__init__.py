"""One frozen `Config` from what a user brought: DeepSpeed JSON, Accelerate YAML, dict, flags."""
