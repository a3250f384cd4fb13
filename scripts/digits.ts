/** A pattern for the whole numbers from `least` to `most`, in decimal digits without leading zeros. */
export function numbersPattern(least: bigint, most: bigint): string {
  return `(${patternsOf(least, most).join('|')})`;
}

function patternsOf(least: bigint, most: bigint): string[] {
  if (least > most) return [];
  const [from, to] = [`${least}`, `${most}`];
  // Numbers with fewer digits come first, by themselves.
  if (from.length < to.length) {
    const border = 10n ** BigInt(from.length);
    return [...sameLength(from, `${border - 1n}`), ...patternsOf(border, most)];
  }
  return sameLength(from, to);
}

/** Of two texts with equally many digits. */
function sameLength(from: string, to: string): string[] {
  const rest = from.length - 1;
  if (from === to) return [from];
  const [first, last] = [Number(from[0]), Number(to[0])];
  if (rest === 0) return [`[${first}-${last}]`];
  if (first === last) return sameLength(from.slice(1), to.slice(1)).map((tail) => `${first}${tail}`);
  const [zeros, nines] = ['0'.repeat(rest), '9'.repeat(rest)];
  const isLow = from.slice(1) === zeros;
  const isHigh = to.slice(1) === nines;
  const [low, high] = [isLow ? first : first + 1, isHigh ? last : last - 1];
  return [
    ...(isLow ? [] : sameLength(from.slice(1), nines).map((tail) => `${first}${tail}`)),
    ...(low > high ? [] : [`${low === high ? low : `[${low}-${high}]`}${anyDigits(rest)}`]),
    ...(isHigh ? [] : sameLength(zeros, to.slice(1)).map((tail) => `${last}${tail}`)),
  ];
}

function anyDigits(count: number): string {
  return count === 1 ? '[0-9]' : `[0-9]{${count}}`;
}
