import { Gauge, type Registry } from 'prom-client';
import { withTimeout } from '../volume/flow/with-timeout.ts';

/** The longest wait of a scrape for a server. */
const scrapeTimeoutMs = 3_000;

/** A server whose volumes this node uses. */
export interface UsedServer {
  readonly kind: string;
  readonly server: string;
  readonly volumes: number;
  /** Answers if the server does; undefined: volumes of its kind have none. */
  ask(): Promise<boolean | undefined>;
}

type ServerGauge = Gauge<'kind' | 'server'>;

/** The servers of a network whose volumes this node uses. Each scrape asks each once. */
export class ServerMetrics {
  readonly #servers: () => readonly UsedServer[];
  readonly #up: ServerGauge;
  readonly #lastAnswer: ServerGauge;
  readonly #volumes: ServerGauge;
  /** By server, in seconds: of servers that are in use. */
  #answers: ReadonlyMap<string, number> = new Map();
  /** A question that hangs is sent once, and the next scrape waits with it. */
  readonly #asked = new Map<string, Promise<boolean | undefined>>();

  constructor(registry: Registry, servers: () => readonly UsedServer[]) {
    const gauge = (name: string, help: string) =>
      new Gauge({
        ...{ name: `holdfast_server_${name}`, help, labelNames: ['kind', 'server'] as const },
        registers: [registry],
      });
    this.#servers = servers;
    this.#up = gauge('up', '1 if the server answered this scrape.');
    this.#lastAnswer = gauge('last_answer_timestamp_seconds', 'Time of the last scrape that the server answered.');
    this.#volumes = gauge('volumes', 'Volumes of the server that this node uses.');
  }

  async collect(): Promise<void> {
    const seen = await Promise.all(this.#servers().map(async (each) => ({ ...each, isUp: await this.#ask(each) })));
    for (const gauge of [this.#up, this.#lastAnswer, this.#volumes]) gauge.reset();
    const answers = new Map<string, number>();
    for (const { isUp, kind, server, volumes } of seen) {
      const key = `${kind} ${server}`;
      const answeredAt = isUp === true ? Date.now() / 1000 : this.#answers.get(key);
      this.#volumes.set({ kind, server }, volumes);
      if (isUp !== undefined) this.#up.set({ kind, server }, Number(isUp));
      if (answeredAt === undefined) continue;
      answers.set(key, answeredAt);
      this.#lastAnswer.set({ kind, server }, answeredAt);
    }
    this.#answers = answers;
  }

  async #ask({ ask, kind, server }: UsedServer): Promise<boolean | undefined> {
    const key = `${kind} ${server}`;
    const asking = this.#asked.get(key) ?? ask().finally(() => this.#asked.delete(key));
    this.#asked.set(key, asking);
    const answer = await withTimeout(
      scrapeTimeoutMs,
      asking.catch(() => false),
    );
    return answer === 'late' ? false : answer;
  }
}
