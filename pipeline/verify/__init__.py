"""What a compacted log must hold, judged record by record."""
