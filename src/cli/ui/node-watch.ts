import { AdminClient } from '../../admin/client.ts';
import type { Config } from '../../config/config.ts';
import { explain } from '../../kernel/call/explain.ts';
import { Board } from '../../page/board.ts';
import { version } from '../../version.ts';
import { parseInput } from '../../volume/parse-input.ts';
import { showItems } from '../fleet/board-items.ts';
import { lookFor } from '../fleet/look.ts';
import { anyItem, type NodeItem } from '../fleet/shapes.ts';

/** Pause between two looks at this node, while a page is open. */
const restMs = 5_000;

/** Keeps a board of this node current: as the controller does of each node. */
export class NodeWatch implements Disposable {
  readonly board = new Board();
  readonly #config: Config;
  readonly #since = new Date().toISOString();
  #timer: NodeJS.Timeout | undefined;
  #isLooking = false;
  #isWanted = true;
  #hasEnded = false;

  constructor(config: Config) {
    this.#config = config;
    this.board.lacks({ waiting: 1, problems: [], missing: [] });
    void this.#look();
  }

  /** Something has been changed: it is shown as soon as possible. */
  look(): void {
    this.#isWanted = true;
    if (!this.#isLooking) void this.#look();
  }

  [Symbol.dispose](): void {
    this.#hasEnded = true;
    clearTimeout(this.#timer);
  }

  async #look(): Promise<void> {
    clearTimeout(this.#timer);
    this.#isLooking = true;
    this.#isWanted = false;
    const { nodeId: node } = this.#config;
    try {
      await this.#show();
    } catch (error) {
      this.board.lacks({ waiting: 0, problems: [], missing: [{ node, reason: 'failed', message: explain(error) }] });
    }
    this.#isLooking = false;
    if (this.#hasEnded) return;
    if (this.#isWanted) void this.#look();
    else this.#timer = setTimeout(() => void this.#look(), restMs);
  }

  async #show(): Promise<void> {
    const { nodeId: node } = this.#config;
    const looked = await lookFor(this.#config)({ list: 'all', volume: undefined });
    const items = (looked?.items ?? []).flatMap((item) => {
      const parsed = parseInput(anyItem, JSON.parse(item));
      return 'data' in parsed ? [parsed.data] : [];
    });
    const pools = items.flatMap(({ pools: pool }) => (pool === undefined ? [] : [pool]));
    const driver = await new AdminClient(this.#config.adminSocketPath).listPools().catch(() => undefined);
    const item: NodeItem = {
      ...{ node, state: driver === undefined ? 'away' : 'linked', since: this.#since, version },
      volumes: items.filter((each) => each.volumes !== undefined).length,
      snapshots: items.filter((each) => each.snapshots !== undefined).length,
      pools: pools.map(({ advice, kind, name, state }) => ({
        ...{ name, kind, state },
        ...(advice !== undefined && { reason: advice }),
      })),
    };
    this.board.replace('nodes', node, [[node, item]]);
    showItems(this.board, node, items);
    const problems = (looked?.problems ?? []).map((message) => ({ node, message }));
    this.board.lacks({ waiting: 0, problems, missing: [] });
  }
}
