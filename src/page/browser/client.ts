import type { StreamMessage } from '../messages.ts';
import type { Store } from './store.ts';

/** The path of the server's answers: the page lies in `ui/` beside them, also behind the API server's proxy. */
const root = new URL('../v1/', location.href.replace(/[?#].*$/, ''));

/** Only in memory: it ends with the tab. */
let token = '';

/** Silence after which the connection is dead: the server sends something every 10 s. */
const silentMs = 35_000;
const shortestPauseMs = 500;
const longestPauseMs = 8_000;
/** Time after which a hidden page closes its stream, and costs the server nothing. */
const hiddenMs = 60_000;

/** The server refused: the sentence is for people. */
class Refusal extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** Takes the secret out of the address before anything else happens, and keeps it in memory. */
export async function takeSecret(): Promise<void> {
  const fragment = new URLSearchParams(location.hash.slice(1));
  if (location.hash !== '') history.replaceState(null, '', `${location.pathname}${location.search}`);
  const [code, given] = [fragment.get('code'), fragment.get('token')];
  if (given !== null) token = given;
  if (code === null) return;
  const response = await fetch(new URL('session', root), { method: 'POST', headers: { 'x-holdfast-code': code } });
  if (!response.ok) throw new Refusal(response.status, (await output(response)).problems);
  const answer: { token: string } = await response.json();
  token = answer.token;
}

export function hasSecret(): boolean {
  return token !== '';
}

interface Asking {
  readonly method?: 'GET' | 'POST';
  /** The answer is not wanted any more. */
  readonly signal?: AbortSignal;
}

/** The output of the command of this name, with --json. @throws Refusal */
export async function ask<T>(
  path: string,
  query: Readonly<Record<string, string>>,
  { method = 'GET', signal }: Asking = {},
): Promise<T> {
  const url = new URL(path, root);
  for (const [key, value] of Object.entries({ ...query, output: 'json' })) url.searchParams.set(key, value);
  const headers = { 'x-holdfast-token': token };
  const response = await fetch(url, { method, headers, signal: signal ?? null });
  const { problems, result } = await output(response);
  if (response.ok && result !== '') return JSON.parse(result);
  throw new Refusal(response.status, problems);
}

/** An answer is lines: those with `1` are the result, those with `2` problems, and the last is `x` and a number. */
async function output(response: Response): Promise<{ result: string; problems: string }> {
  const lines = (await response.text()).split('\n');
  const marked = (mark: string) => lines.flatMap((line) => (line.startsWith(mark) ? [line.slice(1)] : []));
  const problems = marked('2').map((line) => {
    try {
      const { message } = JSON.parse(line);
      return String(message);
    } catch {
      return line.replace(/^holdfast: /, '');
    }
  });
  const isWhole = lines.some((line) => /^x\d+$/.test(line));
  if (!isWhole) problems.push(`The answer is not whole (HTTP status ${response.status}).`);
  return { result: marked('1').join('\n'), problems: problems.join(' ') };
}

/** Keeps the stream open for as long as the page is seen. */
export function follow(store: Store): void {
  let stop = new AbortController();
  let hiding: ReturnType<typeof setTimeout> | undefined;
  let isPaused = false;
  document.addEventListener('visibilitychange', () => {
    clearTimeout(hiding);
    if (document.visibilityState === 'hidden') {
      hiding = setTimeout(() => {
        isPaused = true;
        stop.abort();
        store.is({ is: 'paused' });
      }, hiddenMs);
    } else if (isPaused) {
      isPaused = false;
      void run();
    }
  });
  void run();

  async function run(): Promise<void> {
    for (let pauseMs = shortestPauseMs; !isPaused; pauseMs = Math.min(2 * pauseMs, longestPauseMs)) {
      stop = new AbortController();
      const { signal } = stop;
      try {
        await read(store, stop, () => {
          pauseMs = shortestPauseMs;
        });
      } catch (error) {
        if (error instanceof Refusal && [401, 403].includes(error.status)) {
          store.is({ is: 'refused', message: error.message });
          return;
        }
      }
      if (store.connection.is === 'refused') return;
      if (signal.aborted && isPaused) return;
      store.is({ is: 'lost', since: Date.now() });
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
  }
}

/** Reads one stream to its end. @throws Refusal */
async function read(store: Store, stop: AbortController, onMessage: () => void): Promise<void> {
  let silence = setTimeout(() => stop.abort(), silentMs);
  try {
    const headers = { 'x-holdfast-token': token, accept: 'text/event-stream' };
    const response = await fetch(new URL('stream', root), { headers, signal: stop.signal, cache: 'no-store' });
    if (!response.ok || response.body === null) throw new Refusal(response.status, (await output(response)).problems);
    const reader = response.body.getReader();
    const decoder = new TextDecoder();
    let pieces: string[] = [];
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      clearTimeout(silence);
      silence = setTimeout(() => stop.abort(), silentMs);
      // A message can come in many pieces: they are joined once.
      let rest = decoder.decode(value, { stream: true });
      for (let end = endOf(pieces, rest); end >= 0; end = rest.indexOf('\n\n')) {
        const event = [...pieces, rest.slice(0, end)].join('');
        pieces = [];
        rest = rest.slice(end).replace(/^\n{1,2}/, '');
        if (!event.startsWith('data: ')) continue;
        const message: StreamMessage = JSON.parse(event.slice('data: '.length));
        onMessage();
        store.receive(message);
      }
      if (rest !== '') pieces.push(rest);
    }
  } finally {
    clearTimeout(silence);
  }
}

/** Where the first event ends in a piece; the two line feeds can be in two pieces. */
function endOf(pieces: readonly string[], rest: string): number {
  return rest.startsWith('\n') && pieces.at(-1)?.endsWith('\n') === true ? 0 : rest.indexOf('\n\n');
}
