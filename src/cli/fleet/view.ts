import { setImmediate } from 'node:timers/promises';
import type { z } from 'zod';
import { sureNode } from '../../fleet/controller/sure-node.ts';
import { nodesUnknown } from '../../fleet/routing/missing.ts';
import { askFleet, type FleetAnswer, type FleetQuestion, requireNode, type Told } from '../../fleet/view/ask.ts';
import type { ViewWishes } from '../../fleet/view/request.ts';
import type { Show, ViewedFleet } from '../../fleet/view/start.ts';
import type { Answer } from '../../page/answer.ts';
import { NotFound, Unavailable } from '../../volume/errors.ts';
import { findVolume, isMeant, type Known } from '../look/find-volume.ts';
import { exitCodes, type Output, problemLine } from '../output/output.ts';
import { codeOf } from '../output/problem-code.ts';
import { type Column, fit, rowLines, widened } from '../output/table.ts';
import { diskColumns, diskRow } from '../output/tables/disks.ts';
import { holderLines, incompleteHolders } from '../output/tables/holders.ts';
import { moveColumns, moveRow, progressLine } from '../output/tables/moves.ts';
import { poolColumns, poolRow } from '../output/tables/pools.ts';
import { snapshotColumns, snapshotRow } from '../output/tables/snapshots.ts';
import { trashColumns, trashRow } from '../output/tables/trash.ts';
import { volumeColumns, volumeDetails, volumeRow } from '../output/tables/volumes.ts';
import { printable, shortened } from '../output/text.ts';
import { changeFleet } from './change.ts';
import { exportFleet } from './export.ts';
import { nodeColumns, nodeItems, nodeRow } from './nodes.ts';
import { type fleetShapes, itemShapes } from './shapes.ts';
import { FleetWatch } from './watch.ts';

/*
 * The commands of `kubectl holdfast`, as the controller runs them for a permitted user: the tables and the JSON are those
 * of the commands on a node, with the node of each item.
 */

export const show: Show = {
  watch: (fleet) => new FleetWatch(fleet),
  async change(fleet, wishes, signal) {
    const output = new Lines(wishes.json);
    return output.answer(await changeFleet(fleet, wishes, output, signal));
  },
  async look(fleet, wishes, signal) {
    const output = new Lines(wishes.json, wishes.width);
    return output.answer(await new Viewing(fleet, wishes, output, signal).run());
  },
  refuse(error, wantsJson) {
    const output = new Lines(wantsJson);
    output.problem(codeOf(error), error.message);
    return output.answer(exitCodes.failed);
  },
};

/** The output of a command, line by line. */
class Lines implements Output {
  readonly colours = false;
  readonly width: number | undefined;
  readonly #json: boolean;
  readonly #texts: { readonly to: 'result' | 'problem'; readonly text: string }[] = [];

  constructor(json: boolean, width?: number) {
    this.#json = json;
    this.width = width;
  }

  line(text: string): void {
    this.#texts.push({ to: 'result', text });
  }

  problem(code: Parameters<Output['problem']>[0], message: string): void {
    this.#texts.push({ to: 'problem', text: problemLine(code, printable(message), { json: this.#json }) });
  }

  answer(exitCode: number): Answer {
    return { exitCode, lines: linesOf(this.#texts) };
  }
}

/** A node's text may contain anything; JSON and YAML know the same escapes. */
function* linesOf(texts: readonly { readonly to: 'result' | 'problem'; readonly text: string }[]) {
  for (const { text, to } of texts) {
    let start = 0;
    for (let end = text.indexOf('\n'); end >= 0; end = text.indexOf('\n', start)) {
      yield { to, text: printable(text.slice(start, end)) };
      start = end + 1;
    }
    yield { to, text: printable(text.slice(start)) };
  }
}

const longestCell = 80;
/** No reader needs more, and drawing it would take long: for all nodes together, and for each. */
const maxHolders = 1000;
const maxHeld = 20;
const longestPath = 512;
/** The kernel keeps 15 characters. */
const longestCommand = 64;

type Held = z.infer<typeof itemShapes.who>;

/** At most this much of an item is drawn, whatever a node sends. */
function shortOf(held: Held, maxHoldersOfIt: number): Held {
  const places = (paths: readonly string[]) => paths.slice(0, maxHeld).map((path) => path.slice(0, longestPath));
  return {
    ...held,
    id: shortened(held.id, longestCell),
    devices: places(held.devices),
    mountedFrom: places(held.mountedFrom),
    holders: held.holders.slice(0, maxHoldersOfIt).map((holder) => {
      const path = holder.path.slice(0, longestPath);
      if (holder.kind === 'process') return { ...holder, path, command: shortened(holder.command, longestCommand) };
      if (holder.kind !== 'mount' || holder.namespaceOf === undefined) return { ...holder, path };
      const command = shortened(holder.namespaceOf.command, longestCommand);
      return { ...holder, path, namespaceOf: { ...holder.namespaceOf, command } };
    }),
  };
}

/** The rows after which other work of the controller gets its turn. */
const rowsAtATime = 50;

class Viewing {
  readonly #fleet: ViewedFleet;
  readonly #wishes: ViewWishes;
  readonly #output: Output;
  readonly #signal: AbortSignal;
  readonly #now = new Date();

  constructor(fleet: ViewedFleet, wishes: ViewWishes, output: Output, signal: AbortSignal) {
    this.#fleet = fleet;
    this.#wishes = wishes;
    this.#output = output;
    this.#signal = signal;
  }

  /** @throws NotFound, Unavailable, FailedPrecondition, InvalidArgument */
  async run(): Promise<number> {
    const now = this.#now;
    switch (this.#wishes.list) {
      case 'nodes':
        return this.#nodes();
      case 'pools':
        return this.#pools();
      case 'volumes':
        if (this.#wishes.progress) return this.#wishes.volume === undefined ? this.#ids() : this.#where();
        return this.#wishes.volume === undefined
          ? this.#list('volumes', await this.#askVolumes('volumes', itemShapes.volumes), volumeColumns, (volume) =>
              volumeRow(volume, now),
            )
          : this.#volume();
      case 'snapshots':
        if (this.#wishes.progress) return this.#snapshotIds();
        return this.#list(
          'snapshots',
          await this.#ask('snapshots', itemShapes.snapshots),
          snapshotColumns,
          (snapshot) => snapshotRow(snapshot, now),
        );
      case 'trash':
        return this.#list('volumes', await this.#askVolumes('trash', itemShapes.trash), trashColumns, (volume) =>
          trashRow(volume, now),
        );
      case 'moves':
        if (this.#wishes.progress) return this.#progress();
        return this.#list('moves', await this.#ask('moves', itemShapes.moves), moveColumns, moveRow);
      case 'disks': {
        const answer = await this.#ask('disks', itemShapes.disks);
        return this.#list('disks', answer, diskColumns, (disk) => diskRow(disk, undefined));
      }
      case 'who':
        return this.#who();
      case 'export':
        return this.#end(
          await exportFleet(this.#output, await this.#askVolumes('volumes', itemShapes.volumes), {
            ...this.#wishes,
            driverName: this.#fleet.driverName,
          }),
        );
    }
  }

  async #nodes(): Promise<number> {
    const { state } = this.#fleet;
    const { json, node: wanted } = this.#wishes;
    if (wanted !== undefined) requireNode(state, wanted);
    const nodes = nodeItems(this.#fleet).filter(({ node }) => wanted === undefined || node === wanted);
    const problems = state.areNodesKnown ? [] : [`${nodesUnknown}; try again`];
    if (json) this.#json<'nodes'>({ nodes, problems });
    else
      await this.#table(
        nodeColumns,
        nodes.map((item) => nodeRow(item, this.#now)),
      );
    if (!json) for (const problem of problems) this.#output.problem('UNAVAILABLE', problem);
    return problems.length === 0 && nodes.every((item) => item.state === 'linked') ? exitCodes.ok : exitCodes.failed;
  }

  /** All volumes, for a program: the id of each, and its claim if it has one. */
  async #ids(): Promise<number> {
    const answer = await this.#ask('volumes', itemShapes.volumes);
    for (const { item } of answer.items) {
      const { claim, id } = item;
      this.#output.line(claim === undefined ? id : `${id} ${claim.namespace}/${claim.name}`);
    }
    return this.#end(answer);
  }

  /** All snapshots, for a program: the name of each, and the id of its volume. A controller that is older shows a table instead. */
  async #snapshotIds(): Promise<number> {
    const answer = await this.#ask('snapshots', itemShapes.snapshots);
    for (const { item } of answer.items) this.#output.line(`snapshot ${item.name} ${item.sourceId}`);
    return this.#end(answer);
  }

  /** One move, for a program that shows it: its state, and a line for people. No node is asked. */
  async #progress(): Promise<number> {
    const { move: moveId, volume } = this.#wishes;
    const told = volume === undefined ? [] : this.#fleet.moves.list(volume);
    const moves = told.filter((each) => moveId === undefined || each.moveId === moveId);
    const last = moves.findLast(({ move }) => move.state === 'running') ?? moves.at(-1);
    const { phase = '-', reason = '', state = 'none' } = last?.move ?? {};
    this.#output.line(`${state} ${phase} ${last?.move.toNode ?? last?.node ?? '-'}`);
    this.#output.line(last !== undefined && state === 'running' ? progressLine(last.move) : reason);
    return exitCodes.ok;
  }

  /** For a program: the one node that surely has the volume, or `-`. */
  async #where(): Promise<number> {
    const { items, missing, problems } = await this.#askVolumes('volumes', itemShapes.volumes);
    const [id = '', ...otherIds] = new Set(items.map(({ item }) => item.id));
    const { moves, state } = this.#fleet;
    const owners = state.owners(id);
    const having = new Set(items.map((told) => told.node));
    const [first = ''] = having;
    const node = sureNode({
      having,
      silent: new Set([...missing, ...problems].map((told) => told.node)),
      recorded: await moves.recordedSilent(id, first),
      moves: moves.list(id),
      isNative: (name) => owners.some((owner) => owner.isNative && owner.node === name),
    });
    this.#output.line(otherIds.length === 0 ? (node ?? '-') : '-');
    return exitCodes.ok;
  }

  async #pools(): Promise<number> {
    const answer = await this.#ask('pools', itemShapes.pools);
    const code = await this.#list('pools', answer, poolColumns, poolRow);
    const ill = answer.items.filter(({ item }) => ['broken', 'quarantined', 'silent'].includes(item.state));
    if (!this.#wishes.json) {
      for (const { item, node } of answer.items) {
        if (item.advice === undefined) continue;
        const isIll = ill.some((other) => other.item === item);
        const advice = `node ${node}: pool ${item.name}: ${shortened(item.advice, 400)}`;
        this.#output.problem(isIll ? 'UNAVAILABLE' : 'WARNING', advice);
      }
    }
    return ill.length > 0 ? exitCodes.failed : code;
  }

  async #volume(): Promise<number> {
    const answer = await this.#askVolumes('volumes', itemShapes.volumes);
    const { item, node } = this.#one(answer);
    if (this.#wishes.json) return this.#list('volumes', { ...answer, items: [{ item, node }] }, [], () => []);
    for (const line of volumeDetails(item, this.#now, node)) this.#output.line(printable(line));
    return this.#end(answer);
  }

  async #who(): Promise<number> {
    const answer = await this.#ask('who', itemShapes.who);
    if (answer.items.length === 0) throw this.#none(answer);
    if (this.#wishes.json) return this.#list('volumes', answer, [], () => []);
    let left = maxHolders;
    for (const { item, node } of answer.items.slice(0, maxHeld)) {
      this.#output.line(`On node ${node}:`);
      for (const line of holderLines(shortOf(item, left))) this.#output.line(printable(line));
      left = Math.max(0, left - item.holders.length);
      if (!item.isComplete) this.#output.problem('WARNING', `node ${node}: ${incompleteHolders}`);
    }
    return this.#end(answer);
  }

  /** @throws FailedPrecondition if several are meant */
  #one<Item extends Known>(answer: FleetAnswer<Item>): Told<Item> {
    const known = answer.items.map((told) => ({
      id: told.item.id,
      name: told.item.name,
      claim: told.item.claim,
      pool: `${told.item.pool} of node ${told.node}`,
      told,
    }));
    return findVolume(known, this.#wishes.volume ?? '', 'on the nodes').told;
  }

  #none({ missing, problems }: FleetAnswer<unknown>): NotFound | Unavailable {
    const wanted = `there is no volume '${printable(this.#wishes.volume ?? '')}'`;
    const unsure = [...missing, ...problems].map(({ message, node }) => `node ${node}: ${message}`);
    if (unsure.length === 0) return new NotFound(`${wanted} on any node, by id, name or namespace/claim`);
    const left = unsure.length > 3 ? `; and ${unsure.length - 3} more` : '';
    return new Unavailable(`${wanted} on the nodes that answered; ${unsure.slice(0, 3).join('; ')}${left}`);
  }

  #ask<Item>(list: string, schema: z.ZodType<Item>): Promise<FleetAnswer<Item>> {
    const { node, volume, waitMs } = this.#wishes;
    const question: FleetQuestion = { list, volume, node, waitMs, signal: this.#signal };
    return askFleet(this.#fleet, question, schema);
  }

  /** Only items with a claim in the wanted namespace. */
  #inNamespace<Item extends Known>(answer: FleetAnswer<Item>): FleetAnswer<Item> {
    const { namespace } = this.#wishes;
    if (namespace === undefined) return answer;
    return { ...answer, items: answer.items.filter(({ item }) => item.claim?.namespace === namespace) };
  }

  /** Only the wanted volumes, whatever a node answers. */
  async #askVolumes<Item extends Known>(list: string, schema: z.ZodType<Item>): Promise<FleetAnswer<Item>> {
    const { volume } = this.#wishes;
    const answer = this.#inNamespace(await this.#ask(list, schema));
    if (volume === undefined) return answer;
    const items = answer.items.filter(({ item }) => isMeant(item, volume));
    if (items.length === 0) throw this.#none(answer);
    return { ...answer, items };
  }

  /** Prints the items, and the nodes that are missing. */
  async #list<Item extends object>(
    key: 'disks' | 'moves' | 'pools' | 'snapshots' | 'volumes',
    answer: FleetAnswer<Item>,
    columns: readonly Column[],
    rowOf: (item: Item) => string[],
  ): Promise<number> {
    const { items, missing, problems } = answer;
    if (!this.#wishes.json) {
      await this.#table(
        [{ title: 'NODE' }, ...columns],
        items.map(({ item, node }) => [node, ...rowOf(item)]),
      );
      return this.#end(answer);
    }
    const told = problems.map(({ message, node }) => `node ${node}: ${message}`);
    const list = items.map(({ item, node }) => Object.assign({ node }, item, { node }));
    this.#output.line(JSON.stringify({ [key]: list, problems: told, missing }, undefined, 2));
    return missing.length > 0 || problems.length > 0 ? exitCodes.failed : exitCodes.ok;
  }

  #json<List extends keyof typeof fleetShapes>(result: z.infer<(typeof fleetShapes)[List]>): void {
    this.#output.line(JSON.stringify(result, undefined, 2));
  }

  /** Says which nodes' answers lack something, and the exit code that follows. */
  #end({ missing, problems }: Pick<FleetAnswer<unknown>, 'missing' | 'problems'>): number {
    for (const { message, node } of [...problems, ...missing]) {
      this.#output.problem('UNAVAILABLE', `node ${node}: ${message}`);
    }
    return problems.length > 0 || missing.length > 0 ? exitCodes.failed : exitCodes.ok;
  }

  async #table(columns: readonly Column[], rows: readonly (readonly string[])[]): Promise<void> {
    const short: string[][] = [columns.map(({ title }) => title)];
    let widths = widened([], short[0] ?? []);
    for (const [index, row] of rows.entries()) {
      const cells = row.map((cell) => shortened(printable(cell), longestCell));
      short.push(cells);
      widths = widened(widths, cells);
      if (index % rowsAtATime === 0) await setImmediate();
    }
    const fitted = fit(columns, widths, this.#output.width);
    for (const [index, row] of short.entries()) {
      for (const line of rowLines(fitted, row)) this.#output.line(line);
      if (index % rowsAtATime === 0) await setImmediate();
    }
  }
}
