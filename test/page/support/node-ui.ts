import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { driverCommand } from '../../support/driver.ts';
import { eventually } from '../../support/eventually.ts';

/** `holdfast ui`, and the addresses that it has printed. */
export class NodeUi implements AsyncDisposable {
  output = '';
  readonly #child;

  constructor(environment: Readonly<Record<string, string>>) {
    const [program = '', ...args] = driverCommand;
    this.#child = spawn(program, [...args, 'ui'], { env: environment, stdio: ['ignore', 'pipe', 'inherit'] });
    this.#child.stdout.setEncoding('utf8').on('data', (text: string) => {
      this.output += text;
    });
  }

  /** The addresses, once there are so many. */
  async addresses(count: number): Promise<string[]> {
    let found: string[] = [];
    await eventually(() => {
      found = this.output.match(/^http:.*$/gm) ?? [];
      assert.ok(found.length >= count, this.output);
    });
    return found;
  }

  async end(): Promise<number | null> {
    if (this.#child.exitCode !== null) return this.#child.exitCode;
    const ended = once(this.#child, 'exit');
    this.#child.kill('SIGINT');
    const [code] = await ended;
    return code;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.end();
  }
}
