"""What RTL and host share: number formats, memory layout, registers, random words and the cycle model."""
