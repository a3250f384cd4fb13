import fc, { type Arbitrary } from 'fast-check';

/** Texts that have broken other programs, or sit on a limit of ours. */
const notorious: readonly string[] = [
  ...['', ' ', '.', '..', '/', '//', '/..', '../..', '../../../../etc/passwd', '/etc/passwd', './x', 'x/', 'x\0y'],
  ...['\0', '\n', '\r\n', '\t', '\u001b[2J', '\u0085', '\u202e', '\ufeff', '\ufffd', 'a\u0000', 'x\ny'],
  ...['$(reboot)', '`id`', '; rm -rf /', '| cat', '-o loop', '--help', '-rf', '%s%n%p', '%00', '%2e%2e%2f', '{{7*7}}'],
  ...['__proto__', 'constructor', 'toString', 'hasOwnProperty', 'null', 'undefined', 'true', 'NaN', '1e999', '-0'],
  ...[`vol-${'a'.repeat(26)}`, `vol-${'A'.repeat(26)}`, `vol-${'a'.repeat(25)}`, `vol-${'a'.repeat(27)}`],
  ...[`snap-${'7'.repeat(26)}`, `group-${'z'.repeat(26)}`, `vol-${'0'.repeat(26)}`],
  // 127, 128 and 129 bytes, of one to four bytes a character (L02).
  ...['x'.repeat(127), 'x'.repeat(128), 'x'.repeat(129), 'é'.repeat(64), `${'é'.repeat(64)}x`, '€'.repeat(43)],
  ...['😀'.repeat(32), '😀'.repeat(33), 'x'.repeat(4095), 'x'.repeat(4096), 'é'.repeat(50_000), '/'.repeat(4095)],
  ...['a/'.repeat(2000), '../'.repeat(1000)],
];

/** Texts nobody means well with. */
export const hostileString: Arbitrary<string> = fc.oneof(
  fc.constantFrom(...notorious),
  fc.string({ unit: 'grapheme', maxLength: 160 }),
  fc.string({ unit: 'binary', maxLength: 160 }),
);

/** Variations on a text that would be right: cut, doubled, with something before, behind or in it. */
export function spoiled(text: Arbitrary<string>): Arbitrary<string> {
  return fc.tuple(text, fc.constantFrom(...notorious.slice(0, 40)), fc.nat(6)).map(([right, wrong, how]) => {
    const middle = Math.floor(right.length / 2);
    const variations = [
      `${right}${wrong}`,
      `${wrong}${right}`,
      `${right.slice(0, middle)}${wrong}${right.slice(middle)}`,
      `${right}/${wrong}`,
      right.slice(0, -1),
      right.toUpperCase(),
      `${right}\0`,
    ];
    return variations[how] ?? right;
  });
}

const hostileKey = fc.oneof(
  hostileString,
  fc.constantFrom('csi.storage.k8s.io/ephemeral', 'csi.storage.k8s.io/pod.name'),
);

/** Maps with odd keys, with many, with large ones (L03). */
export const hostileMap: Arbitrary<Record<string, string>> = fc.oneof(
  fc.dictionary(hostileKey, hostileString, { maxKeys: 5, noNullPrototype: true }),
  fc.constantFrom(64, 512, 4095, 4096, 100_000).map((length) => ({ key: 'v'.repeat(length) })),
  fc.nat(2000).map((count) => Object.fromEntries(Array.from({ length: count }, (_, index) => [`k${index}`, '']))),
);

export const hostileInt64: Arbitrary<bigint> = fc.oneof(
  fc.constantFrom(0n, 1n, -1n, 511n, 513n, 1n << 20n, 2n ** 53n - 1n, 2n ** 53n, 2n ** 53n + 1n, 2n ** 62n),
  fc.constantFrom(2n ** 63n - 1n, -(2n ** 63n), 2n ** 63n - 4096n, 2n ** 60n + 1n),
  fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
);

export const hostileInt32: Arbitrary<number> = fc.oneof(
  fc.constantFrom(0, 1, -1, 2 ** 31 - 1, -(2 ** 31)),
  fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }),
);
