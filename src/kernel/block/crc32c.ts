/** The polynomial of Castagnoli with reflected bits, as iSCSI and device-mapper use it. */
const polynomial = 0x82f63b78;

/** The effect of each byte on the register. */
const table = Uint32Array.from({ length: 256 }, (_, byte) => {
  let register = byte;
  for (let bit = 0; bit < 8; bit++) register = (register >>> 1) ^ (register & 1 ? polynomial : 0);
  return register;
});

export function crc32c(data: Uint8Array): number {
  let register = 0xffffffff;
  for (const byte of data) register = (register >>> 8) ^ (table[(register ^ byte) & 0xff] ?? 0);
  return ~register >>> 0;
}
