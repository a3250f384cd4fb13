import { readFile } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { isErrno } from '../kernel/call/errno.ts';

/**
 * No inline script or style, nothing from another host, no frame around the page, no text that becomes HTML (trusted
 * types).
 */
const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join('; ');

const headers = {
  'content-security-policy': policy,
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'cache-control': 'no-store',
} as const;

const types: Readonly<Record<string, string>> = {
  'index.html': 'text/html; charset=utf-8',
  'page.js': 'text/javascript; charset=utf-8',
  'page.css': 'text/css; charset=utf-8',
};

/** Beside the bundle; from the sources it is what `npm run build` has made. */
const directory = new URL(
  basename(fileURLToPath(import.meta.url)) === 'files.ts' ? '../../dist/page/' : './page/',
  import.meta.url,
);

const compress = promisify(gzip);

interface PageFile {
  readonly plain: Buffer;
  readonly packed: Buffer;
}

/** Each is read and packed once: a request for it needs no token. */
const read = new Map<string, Promise<PageFile>>();

function pageFile(name: string): Promise<PageFile> {
  const known = read.get(name);
  if (known !== undefined) return known;
  const file = readFile(new URL(name, directory)).then(async (plain) => ({ plain, packed: await compress(plain) }));
  read.set(name, file);
  file.catch(() => read.delete(name));
  return file;
}

/** The file of the page that a path names; undefined: none. */
export function pageFileIn(path: string): string | undefined {
  const name = /^\/ui\/([a-z.]*)$/.exec(path)?.[1];
  if (name === '') return 'index.html';
  return name !== undefined && Object.hasOwn(types, name) ? name : undefined;
}

/** Sends a file of the page. It holds no secret, so it needs no token. */
export async function sendPageFile(request: IncomingMessage, response: ServerResponse, name: string): Promise<void> {
  if (request.method !== 'GET' && request.method !== 'HEAD') {
    response.writeHead(405, { ...headers, allow: 'GET, HEAD' }).end();
    return;
  }
  let file: PageFile;
  try {
    file = await pageFile(name);
  } catch (error) {
    if (!isErrno(error, 'ENOENT')) throw error;
    const words = 'The page is not beside the program: npm run build makes it.\n';
    response.writeHead(503, { ...headers, 'content-type': 'text/plain; charset=utf-8' }).end(words);
    return;
  }
  const canUnpack = /\bgzip\b/.test(String(request.headers['accept-encoding'] ?? ''));
  const sent = canUnpack ? file.packed : file.plain;
  response.writeHead(200, {
    ...headers,
    'content-type': types[name],
    'content-length': sent.length,
    ...(canUnpack ? { 'content-encoding': 'gzip' } : {}),
  });
  response.end(request.method === 'HEAD' ? undefined : sent);
}

/** Answers if a page of another site sent the request, as browsers say of each. */
export function isFromElsewhere({ headers }: Pick<IncomingMessage, 'headers'>): boolean {
  const site = headers['sec-fetch-site'];
  return site === 'cross-site' || site === 'same-site';
}
