import { Counter, Gauge, Registry } from 'prom-client';
import type { Page } from '../../metrics/listener.ts';
import { addProcessMetrics } from '../../metrics/process-metrics.ts';
import { untold } from '../routing/missing.ts';
import type { FleetView } from '../routing/view.ts';
import { claimTold, forwarded, linkRefused, strayTrashed } from './events.ts';

export interface FleetMetricsOptions {
  readonly view: FleetView;
  readonly identity: { readonly version: string; readonly driver: string; readonly controller: string };
}

/** All metrics of a replica of the controller. Counting begins with the constructor. */
export class FleetMetrics {
  readonly #registry = new Registry();
  readonly #view: FleetView;
  readonly #calls: Counter<'node' | 'outcome'>;

  constructor({ identity, view }: FleetMetricsOptions) {
    const registers = [this.#registry];
    this.#view = view;
    new Gauge({
      name: 'holdfast_fleet_build_info',
      help: 'Always 1; the labels identify the controller.',
      labelNames: ['version', 'driver', 'controller', 'nodejs'],
      registers,
    }).set({ ...identity, nodejs: process.versions.node }, 1);
    new Gauge({
      name: 'holdfast_fleet_nodes',
      help: 'Nodes that have the driver, by Kubernetes or by their link.',
      registers,
      collect() {
        this.set(view.nodes.length);
      },
    });
    new Gauge({
      name: 'holdfast_fleet_links',
      help: 'Nodes that have a link to this replica.',
      registers,
      collect() {
        this.set(view.nodes.filter(({ isLinked }) => isLinked).length);
      },
    });
    new Gauge({
      name: 'holdfast_fleet_node_missing_since_seconds',
      help: 'Time since when a node with the driver has no link to this replica, or an incomplete report; in seconds since 1970.',
      labelNames: ['node'],
      registers,
      collect() {
        this.reset();
        for (const { name, sinceMs } of untold(view)) this.set({ node: name }, Math.round(sinceMs / 1000));
      },
    });
    this.#calls = new Counter({
      name: 'holdfast_fleet_calls_total',
      help: 'Calls for nodes that have ended, by node and outcome.',
      labelNames: ['node', 'outcome'],
      registers,
    });
    const refused = new Counter({
      name: 'holdfast_fleet_links_refused_total',
      help: 'Links that were refused, by reason.',
      labelNames: ['reason'],
      registers,
    });
    const strays = new Counter({
      name: 'holdfast_fleet_strays_total',
      help: 'Volumes that an earlier attempt left on a node which the claim has left since, put into the trash.',
      registers,
    });
    const told = new Counter({
      name: 'holdfast_fleet_claims_told_total',
      help: 'Events on claims: their node is away, is back, or is back without their volume.',
      labelNames: ['kind'],
      registers,
    });
    for (const kind of ['away', 'back', 'missing']) told.inc({ kind }, 0);
    claimTold.subscribe((labels) => told.inc({ ...labels }));
    strayTrashed.subscribe(() => strays.inc());
    forwarded.subscribe((labels) => this.#calls.inc({ ...labels }));
    linkRefused.subscribe((labels) => refused.inc({ ...labels }));
    addProcessMetrics(this.#registry);
  }

  /** Renders Prometheus' text format. */
  async page(): Promise<Page> {
    await this.#forgetNodes();
    return { status: 200, contentType: this.#registry.contentType, body: await this.#registry.metrics() };
  }

  /** Drops the counts of nodes that are gone. */
  async #forgetNodes(): Promise<void> {
    const { values } = await this.#calls.get();
    for (const { labels } of values) {
      if (this.#view.node(String(labels.node)) === undefined) this.#calls.remove(labels);
    }
  }
}
