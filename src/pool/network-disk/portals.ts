import { isIP } from 'node:net';

/** A network address of a target. */
export interface Portal {
  readonly address: string;
  readonly port: string;
}

/** Reads addresses, each once. @returns the mistake, as a text, if one is not usable */
export function parsePortals(words: readonly string[], usualPort: string): readonly Portal[] | string {
  const found: Portal[] = [];
  for (const word of words) {
    const portal = parsePortal(word.trim(), usualPort);
    if (portal === undefined) {
      return `${JSON.stringify(word.trim())} must be an IP address with or without a port, such as 10.0.0.1:${usualPort}`;
    }
    if (!found.some((each) => isSamePortal(each, portal))) found.push(portal);
  }
  return found;
}

export function isSamePortal(a: Portal, b: Portal): boolean {
  return a.port === b.port && a.address === b.address;
}

/** Names are not resolved here: what they stand for may change while a volume is in use. */
function parsePortal(text: string, usualPort: string): Portal | undefined {
  const { v4, v6, given } = /^(?:\[(?<v6>[^\]]+)\]|(?<v4>[0-9.]+))(?::(?<given>[0-9]{1,5}))?$/.exec(text)?.groups ?? {};
  const address = v4 ?? v6 ?? (isIP(text) === 6 ? text : undefined);
  if (address === undefined || isIP(address) === 0) return undefined;
  // The kernel shows it without zeros before it, and reads a number with them as octal.
  const port = Number(given ?? usualPort);
  return port > 0 && port <= 65535 ? { address, port: String(port) } : undefined;
}
