import { z } from 'zod';
import { type Helm, namespace, chart as ownChart, releaseName, type Values } from './helm.ts';

const revisions = z.array(z.looseObject({ revision: z.number(), status: z.string() }));

/** A cluster, and the chart that is installed there: a copy of ours where the cluster needs one. */
interface ReleasePlan {
  readonly helm: Helm;
  readonly kubeconfig: string;
  readonly chart?: string;
}

/** The chart as a user installs it, in a namespace that is there already. Parameters are more flags of helm's. */
export class Release {
  readonly #plan: ReleasePlan;

  constructor(plan: ReleasePlan) {
    this.#plan = plan;
  }

  async install(values: Values, ...parameters: readonly string[]): Promise<void> {
    await this.#run(['install', releaseName, this.#chart, ...parameters], values);
  }

  /** With these values and no others, whatever those of the last revision were. */
  async upgrade(values: Values, ...parameters: readonly string[]): Promise<void> {
    await this.#run(['upgrade', releaseName, this.#chart, '--reset-values', ...parameters], values);
  }

  async rollback(revision: number, ...parameters: readonly string[]): Promise<void> {
    await this.#run(['rollback', releaseName, `${revision}`, ...parameters]);
  }

  async uninstall(...parameters: readonly string[]): Promise<void> {
    await this.#run(['uninstall', releaseName, ...parameters]);
  }

  /** What became of each revision, the first one first. */
  async history(): Promise<string[]> {
    const text = await this.#run(['history', releaseName, '--output', 'json']);
    return revisions.parse(JSON.parse(text)).map(({ status }) => status);
  }

  get #chart(): string {
    return this.#plan.chart ?? ownChart;
  }

  #run(parameters: readonly string[], values?: Values): Promise<string> {
    const { helm, kubeconfig } = this.#plan;
    return helm.run([...parameters, '--kubeconfig', kubeconfig, '--namespace', namespace], values);
  }
}
