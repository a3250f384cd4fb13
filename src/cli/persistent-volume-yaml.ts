import { Document, Scalar, visit } from 'yaml';

/** Readers of YAML differ in what else than text `1e3`, `0o7`, `1:30` or `no` may be: what could be anything is quoted. */
const plainText = /^[A-Za-z][-A-Za-z0-9_./]*$/;

/** One manifest as YAML, the same to a reader of YAML 1.1, such as kubectl, and of 1.2. */
export function toYaml(manifest: object): string {
  const document = new Document(manifest, { version: '1.1' });
  visit(document, {
    Scalar(key, scalar) {
      if (key !== 'key' && typeof scalar.value === 'string' && !plainText.test(scalar.value)) {
        scalar.type = Scalar.QUOTE_DOUBLE;
      }
    },
  });
  // Version 1.1 would be announced at the top, which helps no reader.
  document.directives = undefined;
  return document.toString({ lineWidth: 0 });
}
