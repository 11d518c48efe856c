"""The instrumented engine: mixed precision and ZeRO 0-3 behind DeepSpeed's call signature."""
