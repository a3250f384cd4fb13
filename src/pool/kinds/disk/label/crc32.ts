/** The polynomial of IEEE 802.3, bits reflected: what GPT has its checksums by. node:zlib has it since Node 22.2 only. */
const polynomial = 0xedb88320;

/** The effect of each byte on the register. */
const table = Uint32Array.from({ length: 256 }, (_, byte) => {
  let register = byte;
  for (let bit = 0; bit < 8; bit++) register = (register >>> 1) ^ (register & 1 ? polynomial : 0);
  return register;
});

export function crc32(data: Buffer): number {
  let register = 0xffffffff;
  for (const byte of data) register = (register >>> 8) ^ (table[(register ^ byte) & 0xff] ?? 0);
  return ~register >>> 0;
}
