import type { IncomingMessage, ServerResponse } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import type { Board } from '../../page/board.ts';
import { askedLists, boardLists, changeNames, type Hello, type Refused } from '../../page/messages.ts';
import { sendBoard } from '../../page/stream.ts';
import { version } from '../../version.ts';
import { HoldfastError, Unavailable } from '../../volume/errors.ts';
import { NotAllowed, type Right, type Viewer, type Viewers } from '../kubernetes/viewers.ts';
import { rightsOf } from './request.ts';

/** Pages at a time: all share one board, and each is sent every change of it. */
const maxPages = 32;
/** Pages of one user at a time: no user keeps the others out. */
const maxPagesOfOne = 8;
/** Time for which the board is kept after the last page was closed: a page that is loaded again finds it. */
const lingerMs = 10_000;
/** Interval at which the rights of a page that is open are reviewed. */
const reviewMs = 60_000;

/** Keeps a board of the fleet current, until it is disposed of. */
export interface Watch extends Disposable {
  readonly board: Board;
  /** Has a node asked again: a change was made that it does not report. */
  ask(node: string): void;
}

export interface PageStreamsOptions {
  readonly driverName: string;
  readonly viewers: Pick<Viewers, 'may' | 'whose'>;
  readonly watch: () => Watch;
}

export interface OpenPage {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly gone: AbortSignal;
  readonly token: string;
  readonly viewer: Viewer;
}

type Rights = Pick<Hello, 'lists' | 'may'>;

/** The streams of pages. While there is none, nothing of the fleet is kept or asked for them. */
export class PageStreams {
  readonly #options: PageStreamsOptions;
  #watch: Watch | undefined;
  #pages = 0;
  readonly #pagesOf = new Map<string, number>();
  /** Pages that are shown the board. */
  #shown = 0;
  #lingering: NodeJS.Timeout | undefined;

  constructor(options: PageStreamsOptions) {
    this.#options = options;
  }

  /** Serves a page until it is closed, or its viewer may look no longer. @throws NotAllowed, Unavailable */
  async serve({ gone, request, response, token, viewer }: OpenPage): Promise<void> {
    const leavePlace = this.#takePlace(viewer);
    try {
      await this.#serve({ gone, request, response, token, viewer });
    } finally {
      leavePlace();
    }
  }

  /** Before anything is asked of Kubernetes. @throws Unavailable */
  #takePlace({ name }: Viewer): () => void {
    const own = this.#pagesOf.get(name) ?? 0;
    if (own >= maxPagesOfOne) throw new Unavailable(`${own} pages of ${name} are open; close one of them.`);
    if (this.#pages >= maxPages) throw new Unavailable(`${maxPages} pages are open; close one of them.`);
    this.#pages++;
    this.#pagesOf.set(name, own + 1);
    return () => {
      this.#pages--;
      const left = (this.#pagesOf.get(name) ?? 1) - 1;
      if (left > 0) this.#pagesOf.set(name, left);
      else this.#pagesOf.delete(name);
    };
  }

  async #serve({ gone, request, response, token, viewer }: OpenPage): Promise<void> {
    const { driverName } = this.#options;
    const rights = await this.#rightsOf(viewer);
    if (rights.lists.length === 0) {
      throw new NotAllowed(`${viewer.name} may not look at the fleet: RBAC lets it no "get" of any list`);
    }
    this.#shown++;
    clearTimeout(this.#lingering);
    const leave = new AbortController();
    try {
      this.#watch ??= this.#options.watch();
      const until = new Date(viewer.expiresAtMs).toISOString();
      const now = new Date().toISOString();
      await sendBoard(request, response, {
        board: this.#watch.board,
        hello: { kind: 'hello', scope: 'fleet', driver: driverName, version, now, ...rights, until },
        lists: boardLists.filter((list) => rights.lists.includes(list)),
        ended: this.#reviewed({ token, viewer, rights }, AbortSignal.any([gone, leave.signal])),
        gone,
      });
    } finally {
      leave.abort();
      this.#shown--;
      if (this.#shown === 0) this.#lingering = setTimeout(() => this.#rest(), lingerMs).unref();
    }
  }

  /** A change was made on a node: pages see it at once. */
  changed(node: string): void {
    this.#watch?.ask(node);
  }

  close(): void {
    clearTimeout(this.#lingering);
    this.#rest();
  }

  #rest(): void {
    this.#watch?.[Symbol.dispose]();
    this.#watch = undefined;
  }

  async #rightsOf(viewer: Viewer): Promise<Rights> {
    const { viewers } = this.#options;
    const lists = [...boardLists, ...askedLists];
    const asked = <Each>(rights: readonly Each[], right: (each: Each) => Right) =>
      Promise.all(rights.map((each) => viewers.may(viewer, right(each))));
    const [mayLook, mayChange] = await Promise.all([
      asked(lists, (resource) => ({ verb: 'get', resource })),
      asked(changeNames, (change) => rightsOf[change]),
    ]);
    return {
      lists: lists.filter((_list, at) => mayLook[at]),
      may: changeNames.filter((_change, at) => mayChange[at]),
    };
  }

  /** Resolves when the viewer's token has ended or its rights have changed; the page then asks again. */
  async #reviewed(
    { rights, token, viewer }: { readonly token: string; readonly viewer: Viewer; readonly rights: Rights },
    signal: AbortSignal,
  ): Promise<Refused | undefined> {
    for (;;) {
      const leftMs = viewer.expiresAtMs - Date.now();
      await delay(Math.min(reviewMs, Math.max(0, leftMs)), undefined, { signal, ref: false }).catch(() => undefined);
      if (signal.aborted) return undefined;
      try {
        const now = await this.#rightsOf(await this.#options.viewers.whose(token));
        if (JSON.stringify(now) !== JSON.stringify(rights)) return undefined;
      } catch (error) {
        // Kubernetes that does not answer ends no page: the token is good until it expires.
        if (error instanceof Unavailable && viewer.expiresAtMs > Date.now()) continue;
        return { kind: 'refused', message: error instanceof HoldfastError ? error.message : 'The review has failed.' };
      }
    }
  }
}
