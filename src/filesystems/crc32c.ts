/** RFC 3720, appendix B.4: the polynomial of Castagnoli, bits reflected. */
const castagnoli = 0x82f63b78;

/** Effect of each byte on the register. */
const table = Uint32Array.from({ length: 256 }, (_, byte) => {
  let register = byte;
  for (let bit = 0; bit < 8; bit++) register = (register >>> 1) ^ (register & 1 ? castagnoli : 0);
  return register;
});

/** Start value of the register. */
export const allOnes = 0xffffffff;

/**
 * CRC-32C: the register after these bytes. ext4 stores it as it is; XFS, btrfs and everybody else its complement.
 * @param register `allOnes`, or what an earlier part has left
 */
export function crc32c(register: number, data: Buffer): number {
  let result = register;
  for (const byte of data) result = (result >>> 8) ^ (table[(result ^ byte) & 0xff] ?? 0);
  return result >>> 0;
}
