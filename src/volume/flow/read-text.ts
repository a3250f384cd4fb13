/** Reads a stream to its end. @param tooLong the error once it has more than `maxBytes` */
export async function readText(stream: AsyncIterable<Buffer>, maxBytes: number, tooLong: () => Error): Promise<string> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of stream) {
    length += chunk.length;
    if (length > maxBytes) throw tooLong();
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}
