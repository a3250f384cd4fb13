import type { ChildProcess } from 'node:child_process';
import { closeSync, mkdirSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { spawnWithUs } from '../../support/child.ts';
import { connectDriver, type DriverClient } from '../../support/client.ts';
import { driverCommand } from '../../support/driver.ts';
import { eventually } from '../../support/eventually.ts';
import type { Scratch } from '../../support/scratch.ts';
import type { ApiDouble } from './api-double.ts';

/** A replica of the controller in a process of its own. */
export class ControllerProcess implements AsyncDisposable {
  readonly name: string;
  readonly socketPath: string;
  port = 0;
  readonly #child: ChildProcess;
  readonly #logPath: string;
  readonly #ended: Promise<void>;

  private constructor(
    scratch: Scratch,
    name: string,
    environment: Readonly<Record<string, string>>,
    command: readonly string[],
  ) {
    this.name = name;
    this.socketPath = scratch.join(`${name}.sock`);
    this.#logPath = scratch.join(`${name}.log`);
    const log = openSync(this.#logPath, 'a');
    this.#child = spawnWithUs([...command, 'controller'], {
      stdio: ['ignore', log, log],
      detached: true,
      cwd: '/',
      env: {
        PATH: process.env['PATH'] ?? '',
        CSI_ENDPOINT: `unix://${this.socketPath}`,
        HOLDFAST_LOG_LEVEL: 'debug',
        ...environment,
      },
    });
    closeSync(log);
    this.#ended = new Promise((resolve) => this.#child.once('exit', () => resolve()));
  }

  /** Starts one and waits until nodes can link. */
  static async start(
    scratch: Scratch,
    api: ApiDouble,
    name: string,
    command = driverCommand,
    environment: Readonly<Record<string, string>> = {},
  ): Promise<ControllerProcess> {
    const account = scratch.join('account');
    mkdirSync(account, { recursive: true });
    writeFileSync(`${account}/namespace`, 'holdfast');
    writeFileSync(`${account}/ca.crt`, api.authority);
    writeFileSync(`${account}/token`, 'controller');
    return ControllerProcess.startWith(
      scratch,
      name,
      {
        HOLDFAST_API_SERVER: api.url,
        HOLDFAST_SERVICE_ACCOUNT_DIR: account,
        HOLDFAST_LINK_ADDRESS: '127.0.0.1:0',
        ...environment,
      },
      command,
    );
  }

  static async startWith(
    scratch: Scratch,
    name: string,
    environment: Readonly<Record<string, string>>,
    command: readonly string[] = driverCommand,
  ): Promise<ControllerProcess> {
    const controller = new ControllerProcess(scratch, name, environment, command);
    try {
      controller.port = Number((await controller.logged('nodes can link'))['port']);
      return controller;
    } catch (error) {
      await controller[Symbol.asyncDispose]();
      throw error;
    }
  }

  connect(): DriverClient {
    return connectDriver(this.socketPath);
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  output(): string {
    return readFileSync(this.#logPath, 'utf8');
  }

  log(): Record<string, unknown>[] {
    const lines = this.output().split('\n');
    return lines.filter((line) => line.startsWith('{')).map((line) => JSON.parse(line));
  }

  /** Waits for a line with this message and these fields, and returns it. */
  async logged(message: string, fields: Readonly<Record<string, unknown>> = {}): Promise<Record<string, unknown>> {
    let found: Record<string, unknown> | undefined;
    await eventually(() => {
      const isIt = (line: Record<string, unknown>) =>
        line['msg'] === message && Object.entries(fields).every(([key, value]) => line[key] === value);
      found = this.log().find(isIt);
      if (this.#child.exitCode !== null) throw new Error(`the controller ended:\n${this.output().slice(-4000)}`);
      if (found === undefined) throw new Error(`no '${message}' in:\n${this.output().slice(-4000)}`);
    }, 60_000);
    return found ?? {};
  }

  async kill(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.#ended;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode === null && this.#child.signalCode === null) this.#child.kill('SIGTERM');
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), 30_000);
    await this.#ended;
    clearTimeout(timer);
  }
}
