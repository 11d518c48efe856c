"""One frozen `Config`, whatever the user brought: DeepSpeed JSON, Accelerate YAML, a dict or flags."""
