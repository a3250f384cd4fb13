/** The limit of CSI for a message within a response (L07). */
const longestMessageBytes = 128;

/** Cuts a text at a character if it is too long for a message field. */
export function shortMessage(text: string): string {
  if (Buffer.byteLength(text) <= longestMessageBytes) return text;
  let short = '';
  for (const character of text) {
    if (Buffer.byteLength(`${short}${character}…`) > longestMessageBytes) break;
    short += character;
  }
  return `${short}…`;
}
