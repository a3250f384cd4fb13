/** RFC 3720, appendix B.4: the polynomial of Castagnoli, bits reflected. */
const castagnoli = tableOf(0x82f63b78);
/** The polynomial of IEEE 802.3, bits reflected. */
const ethernet = tableOf(0xedb88320);

/** Effect of each byte on the register. */
function tableOf(polynomial: number): Uint32Array {
  return Uint32Array.from({ length: 256 }, (_, byte) => {
    let register = byte;
    for (let bit = 0; bit < 8; bit++) register = (register >>> 1) ^ (register & 1 ? polynomial : 0);
    return register;
  });
}

function after(register: number, data: Uint8Array, table: Uint32Array): number {
  let result = register;
  for (const byte of data) result = (result >>> 8) ^ (table[(result ^ byte) & 0xff] ?? 0);
  return result >>> 0;
}

/** Start value of the register. */
export const allOnes = 0xffffffff;

/**
 * CRC-32C: the register after these bytes. ext4 and device-mapper store it as it is; XFS, btrfs and everybody else its complement.
 * @param register `allOnes`, or what an earlier part has left
 */
export function crc32c(register: number, data: Uint8Array): number {
  return after(register, data, castagnoli);
}

/** CRC-32, as GPT has it. node:zlib has it since Node 22.2 only. */
export function crc32(data: Uint8Array): number {
  return ~after(allOnes, data, ethernet) >>> 0;
}
