import numpy as np

from bitlane.encoded.coded_rows import CodedArray, CodeScale


def test_high_bits_are_the_nearest_codes_of_fewer_bits(seed: int) -> None:
    random = np.random.default_rng(seed)
    values = random.uniform(-1, 1, (500, 3))
    bits, fewer = 8, int(random.choice([2, 4, 6]))
    codes = np.floor(values * 2 ** (bits - 1)).astype(np.int8)
    scale = CodeScale(random.normal(size=3), np.full(3, 2.0 ** (1 - bits)))
    rows = CodedArray(codes, scale)
    read = np.concatenate([block.codes for block in rows.blocks(fewer)])
    assert (read == np.floor(values * 2 ** (fewer - 1))).all()
    width = 2.0 ** (1 - fewer)
    middles = (np.floor(values / width) + 0.5) * width + scale.center
    np.testing.assert_allclose(scale.at(bits, fewer).values(read), middles, rtol=0, atol=1e-14)
