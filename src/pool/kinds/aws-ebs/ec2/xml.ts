/** An element of an answer: it has a text or elements. */
export interface XmlElement {
  readonly name: string;
  readonly text: string;
  readonly children: readonly XmlElement[];
}

/** The text is no XML of the form that EC2 has. */
export class NotXml extends Error {}

const entities: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };
const token = /<\?[^>]*\?>|<!--[\s\S]*?-->|<(\/?)([A-Za-z_][\w.:-]*)((?:\s[^<>]*?)?)(\/?)>|([^<]+)/y;
const deepest = 32;

/**
 * Reads an answer of EC2: elements and texts. Attributes, which are namespaces only, are left out. Doctypes and CDATA, which it
 * never has, are refused.
 * @throws NotXml
 */
export function parseXml(text: string): XmlElement {
  interface Open {
    readonly name: string;
    text: string;
    readonly children: XmlElement[];
  }
  const root: Open = { name: '', text: '', children: [] };
  const open: Open[] = [root];
  token.lastIndex = 0;
  while (token.lastIndex < text.length) {
    const at = token.lastIndex;
    const [whole, end, name, , empty, words] = token.exec(text) ?? [];
    const current = open.at(-1);
    if (whole === undefined || current === undefined) throw new NotXml(`no XML at character ${at}`);
    if (words !== undefined) current.text += decode(words);
    else if (name === undefined) continue;
    else if (end === '/') close(open, name);
    else if (empty === '/') current.children.push({ name, text: '', children: [] });
    else if (open.length > deepest) throw new NotXml('elements lie too deep');
    else open.push({ name, text: '', children: [] });
  }
  const [first, other] = root.children;
  if (open.length !== 1 || first === undefined || other !== undefined) throw new NotXml('it is not whole');
  return first;
}

function close(open: { readonly name: string; text: string; readonly children: XmlElement[] }[], name: string): void {
  const ended = open.pop();
  const parent = open.at(-1);
  if (ended === undefined || parent === undefined || ended.name !== name) throw new NotXml(`</${name}> ends nothing`);
  const text = ended.children.length === 0 ? ended.text.trim() : '';
  parent.children.push({ name, text, children: ended.children });
}

function decode(text: string): string {
  return text.replace(/&(#x[0-9A-Fa-f]{1,6}|#[0-9]{1,7}|[a-z]{2,4});/g, (whole, name: string) => {
    if (!name.startsWith('#')) return entities[name] ?? whole;
    const code = name.startsWith('#x') ? Number.parseInt(name.slice(2), 16) : Number(name.slice(1));
    return code > 0x10_ff_ff ? whole : String.fromCodePoint(code);
  });
}

/** The element below, by its name; undefined: none. */
export function child({ children }: XmlElement, name: string): XmlElement | undefined {
  return children.find((each) => each.name === name);
}

/** The text of the element below; empty: there is none. */
export function textOf(element: XmlElement, ...path: readonly string[]): string {
  let current: XmlElement | undefined = element;
  for (const name of path) current = current && child(current, name);
  return current?.text ?? '';
}

/** The items of a list: `<volumeSet><item>…</item></volumeSet>`. */
export function itemsIn(element: XmlElement, name: string): readonly XmlElement[] {
  return child(element, name)?.children.filter((each) => each.name === 'item') ?? [];
}
