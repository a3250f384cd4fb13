import { runToEnd } from './command.ts';
import type { Manifest } from './objects.ts';

interface KubectlOptions {
  readonly input?: string;
  readonly timeoutMs?: number;
}

/** Longer than anything that kubectl itself is told to wait for. */
const longestMs = 1_000_000;

/** kubectl, as the administrator of one cluster. */
export class Kubectl {
  readonly #program: string;
  readonly #kubeconfig: string;

  constructor(program: string, kubeconfig: string) {
    this.#program = program;
    this.#kubeconfig = kubeconfig;
  }

  /** Runs `kubectl …`; what it printed. */
  run(parameters: readonly string[], options: KubectlOptions = {}): Promise<string> {
    const all = ['--kubeconfig', this.#kubeconfig, ...parameters];
    return runToEnd(this.#program, all, { timeoutMs: longestMs, ...options });
  }

  /** Creates or changes objects; a field that Kubernetes does not know is an error. */
  async apply(objects: readonly Manifest[], parameters: readonly string[] = []): Promise<void> {
    const input = JSON.stringify({ apiVersion: 'v1', kind: 'List', items: objects });
    await this.run(['apply', '--server-side', '--validate=strict', ...parameters, '-f', '-'], { input });
  }
}
