import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { InvalidArgument, OutOfRange } from './errors.ts';
import { chooseSize, defaultVolumeBytes, formatBytes, granularityBytes, parseQuantity, satisfies } from './size.ts';

const bytes = fc.bigInt({ min: 1n, max: (1n << 63n) - 1n });

describe('the size of a volume', () => {
  test('CV32: no range gives the default, at least the minimum', () => {
    assert.equal(chooseSize(undefined, 0n), defaultVolumeBytes);
    assert.equal(chooseSize(undefined, 5n << 30n), 5n << 30n);
  });

  test('CV05 CV06 CV07 CV09 L12: a chosen size satisfies the range, or it is OUT_OF_RANGE', () => {
    fc.assert(
      fc.property(fc.option(bytes), fc.option(bytes), bytes, (required, limit, minimum) => {
        const range = { requiredBytes: required ?? undefined, limitBytes: limit ?? undefined };
        let size: bigint;
        try {
          size = chooseSize(range, minimum);
        } catch (error) {
          assert.ok(error instanceof OutOfRange);
          return;
        }
        assert.ok(satisfies(size, range));
        assert.ok(size >= minimum);
        assert.equal(size % granularityBytes, 0n);
      }),
    );
  });

  test('CV06: required equal to limit gives exactly that size', () => {
    const size = 10n << 30n;
    assert.equal(chooseSize({ requiredBytes: size, limitBytes: size }, 0n), size);
  });

  test('CV07: rounding up does not pass the limit', () => {
    assert.throws(() => chooseSize({ requiredBytes: 4097n, limitBytes: 8191n }, 0n), OutOfRange);
  });

  test('CV07: a limit alone is honoured', () => {
    assert.equal(chooseSize({ requiredBytes: undefined, limitBytes: 10_000n }, 4096n), 8192n);
  });

  test('L12: sizes above 2^53 keep every byte', () => {
    const size = (1n << 53n) + granularityBytes;
    assert.equal(chooseSize({ requiredBytes: size - 1n, limitBytes: undefined }, 0n), size);
  });
});

describe('quantities', () => {
  test('are read as Kubernetes writes them', () => {
    assert.equal(parseQuantity('10Gi'), 10n << 30n);
    assert.equal(parseQuantity('500M'), 500_000_000n);
    assert.equal(parseQuantity('4096'), 4096n);
  });

  test('every unit is its own: of ten, or of two', () => {
    for (const [index, letter] of ['k', 'M', 'G', 'T', 'P'].entries()) {
      assert.equal(parseQuantity(`3${letter}`), 3n * 1000n ** BigInt(index + 1), letter);
    }
    for (const [index, letter] of ['K', 'M', 'G', 'T', 'P'].entries()) {
      assert.equal(parseQuantity(`3${letter}i`), 3n * 1024n ** BigInt(index + 1), letter);
    }
  });

  test('fractions and exponents, as people write them', () => {
    const expected: Readonly<Record<string, bigint>> = {
      '1.5Gi': 3n << 29n,
      '0.5Gi': 1n << 29n,
      '.5Gi': 1n << 29n,
      '1.Gi': 1n << 30n,
      '67.72Gi': 72_713_796_322n,
      '1e9': 10n ** 9n,
      '1E9': 10n ** 9n,
      '1.5e3': 1500n,
      '12e-1': 2n,
      '1E': 10n ** 18n,
      '1Ei': 1n << 60n,
      '128974848000m': 128_974_848n,
      '0.1': 1n,
      '0': 0n,
    };
    for (const [text, size] of Object.entries(expected)) assert.equal(parseQuantity(text), size, text);
  });

  for (const text of ['', '.', '-1', '+1', 'Gi', '10 Gi', '10gi', '0x10', '1e', '1e3Gi', '1,5Gi', '80%', '1e999']) {
    test(`'${text}' is refused`, () => assert.throws(() => parseQuantity(text), InvalidArgument));
  }

  const hints = { '10GB': '10G', '10 GiB': '10Gi', '10gi': '10Gi', '1.5tb': '1.5T', '5kb': '5k', '10g': '10G' };
  for (const [text, meant] of Object.entries(hints)) {
    test(`'${text}': did you mean ${meant}?`, () => {
      assert.throws(() => parseQuantity(text), {
        message: new RegExp(`^'${text}' is not a size \\(did you mean ${meant}\\?\\)`),
      });
      parseQuantity(meant);
    });
  }

  test("'500m' is half a byte, which nobody means", () => {
    assert.throws(() => parseQuantity('500m'), { message: /thousandth of a byte \(did you mean 500M\?\)/ });
  });

  test('are written for people', () => {
    assert.equal(formatBytes(10n << 30n), '10Gi');
    assert.equal(formatBytes((3n << 30n) / 2n), '1.5Gi');
    assert.equal(formatBytes(999n), '999');
  });
});
