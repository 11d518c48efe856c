"""One frozen `Config`, whatever the user brought: a DeepSpeed or Accelerate file, a dict, flags."""
