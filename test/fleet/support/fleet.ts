import { mkdirSync, writeFileSync } from 'node:fs';
import { type DriverOptions, DriverProcess } from '../../support/driver.ts';
import { Scratch } from '../../support/scratch.ts';
import type { ApiDouble, TokenFacts } from './api-double.ts';
import type { ControllerProcess } from './controller-process.ts';

/** Images in a directory, or on an XFS in a file, which shares blocks; or directories. */
export type PoolKind = 'directory' | 'image' | 'xfs';

function placeOf(kind: PoolKind, path: string): string {
  if (kind === 'xfs') return `file: ${path}.img, size: 1Gi`;
  return kind === 'image' ? `directory: ${path}` : `kind: directory, path: ${path}`;
}

/** A real driver with a pool of its own, that links to the controllers. */
export class LinkedNode implements AsyncDisposable {
  readonly name: string;
  readonly scratch: Scratch;
  #driver: DriverProcess | undefined;
  readonly #pools: readonly string[];
  readonly #controllers: string;
  readonly #tokenPath: string;
  readonly #authorityPath: string;

  private constructor(name: string, scratch: Scratch, controllers: string, pools: readonly string[]) {
    this.#pools = pools;
    this.name = name;
    this.scratch = scratch;
    this.#controllers = controllers;
    mkdirSync(scratch.join('link'));
    this.#tokenPath = scratch.join('link', 'token');
    this.#authorityPath = scratch.join('link', 'ca.crt');
  }

  /** The kubelet's part: the token, and the controller's certificate. */
  static prepare(
    api: ApiDouble,
    name: string,
    controllers: readonly ControllerProcess[],
    facts: TokenFacts = {},
    pools: readonly string[] = ['default'],
  ) {
    const addresses = controllers.map(({ port }) => `127.0.0.1:${port}`).join(',');
    const node = new LinkedNode(name, new Scratch(`fleet-${name}`), addresses, pools);
    node.giveToken(api.token({ node: name, ...facts }));
    node.trust(authorityIn(api));
    return node;
  }

  static async start(
    api: ApiDouble,
    name: string,
    controllers: readonly ControllerProcess[],
    facts?: TokenFacts,
    pools?: readonly string[],
  ) {
    const node = LinkedNode.prepare(api, name, controllers, facts, pools);
    try {
      await node.startDriver();
      return node;
    } catch (error) {
      await node[Symbol.asyncDispose]();
      throw error;
    }
  }

  get driver(): DriverProcess {
    if (this.#driver === undefined) throw new Error(`the driver of ${this.name} was not started`);
    return this.#driver;
  }

  giveToken(token: string): void {
    writeFileSync(this.#tokenPath, token);
  }

  trust(authority: string): void {
    writeFileSync(this.#authorityPath, authority);
  }

  async startDriver({
    attach = 'none',
    command,
    environment,
    kind = 'image',
  }: Pick<DriverOptions, 'command' | 'environment'> & {
    readonly attach?: 'none' | 'required';
    readonly kind?: PoolKind;
  } = {}): Promise<void> {
    const [first = ''] = this.#pools;
    const places = this.#pools.map((name) => {
      const path = this.scratch.join(name === first ? 'pool' : name);
      return `  ${name}: { ${placeOf(kind, path)} }\n`;
    });
    this.#driver = await DriverProcess.start(this.scratch, {
      ...(command !== undefined && { command }),
      config: `attach: ${attach}\ndefaultPool: ${first}\npools:\n${places.join('')}`,
      environment: {
        HOLDFAST_NODE_ID: this.name,
        HOLDFAST_CONTROLLER: this.#controllers,
        HOLDFAST_CONTROLLER_CA: this.#authorityPath,
        HOLDFAST_CONTROLLER_TOKEN: this.#tokenPath,
        ...environment,
      },
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    using _scratch = this.scratch;
    await this.#driver?.stop();
  }
}

/** The certificate by which the controllers are believed. */
export function authorityIn(api: ApiDouble): string {
  const data = api.known.objects.get('configmaps/holdfast-controller')?.['data'];
  return typeof data === 'object' && data !== null && 'ca.crt' in data ? String(data['ca.crt']) : '';
}

export const writer = { mount: { fs_type: 'ext4' }, access_mode: { mode: 'SINGLE_NODE_WRITER' } } as const;

/** A CreateVolume for that node. */
export function volumeOn(node: string, name: string) {
  const here = [{ segments: { 'topology.holdfast.dev/node': node } }];
  return {
    name,
    capacity_range: { required_bytes: 64n << 20n },
    volume_capabilities: [writer],
    accessibility_requirements: { requisite: here, preferred: here },
  };
}
