"""ZipML's claims, measured: `bitlane reproduce zipml`. A module a claim; `page` writes what they find."""
