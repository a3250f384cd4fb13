import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { askedLists, boardLists, type ChangeName } from '../../../src/page/messages.ts';
import { ApiDouble, viewAudience } from '../../fleet/support/api-double.ts';
import { ControllerProcess } from '../../fleet/support/controller-process.ts';
import { authorityIn } from '../../fleet/support/fleet.ts';
import { viewed } from '../../fleet/support/viewer.ts';
import { driverCommand } from '../../support/driver.ts';
import { Scratch } from '../../support/scratch.ts';
import { ApiProxy } from './api-proxy.ts';
import { crowdOf } from './crowd.ts';
import type { CrowdPlan } from './crowd-process.ts';

const changeRights: Readonly<Record<ChangeName, string>> = {
  restore: 'update:trash',
  purge: 'delete:trash',
  cancel: 'delete:moves',
  forget: 'delete:nodes',
};

/** A real controller with a double of the API server, and the way of a browser to it. */
export class PageScene implements AsyncDisposable {
  readonly scratch: Scratch;
  readonly api: ApiDouble;
  controller: ControllerProcess;
  readonly proxy: ApiProxy;
  #crowd: ChildProcess | undefined;

  private constructor(scratch: Scratch, api: ApiDouble, controller: ControllerProcess, proxy: ApiProxy) {
    this.scratch = scratch;
    this.api = api;
    this.controller = controller;
    this.proxy = proxy;
  }

  /** @param nodes names of nodes that Kubernetes knows */
  static async start(nodes: readonly string[]): Promise<PageScene> {
    const scratch = new Scratch('page');
    const api = await ApiDouble.start();
    for (const name of nodes) api.known.csiNodes.add(name);
    const controller = await ControllerProcess.start(scratch, api, 'first', driverCommand, {
      ...viewed,
      HOLDFAST_LOG_LEVEL: 'info',
    });
    const proxy = await ApiProxy.start(await portOf(controller));
    return new PageScene(scratch, api, controller, proxy);
  }

  /** A token of somebody who may look at everything, and make these changes. */
  token(user: string, may: readonly ChangeName[] = [], lifeSeconds = 3600): string {
    for (const list of [...boardLists, ...askedLists]) this.api.known.viewers.add(`${user} ${list}`);
    for (const change of may) this.api.known.viewers.add(`${user} ${changeRights[change]}`);
    return this.api.token({ user, audience: viewAudience, lifeSeconds });
  }

  /** Simulated nodes, in one process; they were made known by `crowdNames`. */
  startCrowd(count: number, volumesEach: number): void {
    const directory = this.scratch.join('crowd');
    mkdirSync(directory);
    const tokens = crowdNames(count).map((node) => {
      const path = `${directory}/${node}`;
      writeFileSync(path, this.api.token({ node }));
      return path;
    });
    const authorityPath = `${directory}/ca.crt`;
    writeFileSync(authorityPath, authorityIn(this.api));
    const plan: CrowdPlan = { tokens, authorityPath, volumesEach, port: this.controller.port };
    writeFileSync(`${directory}/plan.json`, JSON.stringify(plan));
    const program = fileURLToPath(new URL('crowd-process.ts', import.meta.url));
    this.#crowd = spawn(process.execPath, [program, `${directory}/plan.json`], { stdio: 'inherit' });
  }

  /** Another controller in the place of the first one, which was killed. */
  async restart(): Promise<void> {
    await this.controller.kill();
    this.controller = await ControllerProcess.start(this.scratch, this.api, 'second', driverCommand, {
      ...viewed,
      HOLDFAST_LINK_ADDRESS: `127.0.0.1:${this.controller.port}`,
      HOLDFAST_LOG_LEVEL: 'info',
    });
    this.proxy.port = await portOf(this.controller);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    using _scratch = this.scratch;
    this.#crowd?.kill('SIGKILL');
    await this.proxy[Symbol.asyncDispose]();
    await this.controller[Symbol.asyncDispose]();
    await this.api[Symbol.asyncDispose]();
  }
}

export function crowdNames(count: number): string[] {
  return crowdOf(count, 0).map(({ name }) => name);
}

async function portOf(controller: ControllerProcess): Promise<number> {
  return Number((await controller.logged('listening for viewers of the fleet'))['port']);
}
