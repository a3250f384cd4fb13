import { existsSync, mkdirSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { runToEnd } from '../cluster/harness/command.ts';

const version = 'v4.3.1';
export const chart = fileURLToPath(new URL('../../deploy/charts/holdfast', import.meta.url));

/** As docs/install.md has them. */
export const [releaseName, namespace] = ['holdfast', 'holdfast-system'];

/** Values that differ from the chart's own. */
export type Values = Readonly<Record<string, unknown>>;

/** helm, for the chart of this repository. What talks to a cluster is a `Release`. */
export class Helm {
  /** Where the program lies. */
  readonly directory: string;

  private constructor(directory: string) {
    this.directory = directory;
  }

  get #program(): string {
    return join(this.directory, 'helm');
  }

  /** Built with Go into the user's cache, the first time. */
  static async build(): Promise<Helm> {
    const cache = process.env['XDG_CACHE_HOME'] || join(homedir(), '.cache');
    const directory = join(cache, 'holdfast', 'bin', `helm-${version}`);
    if (!existsSync(join(directory, 'helm'))) {
      console.error(`deploy: building helm ${version} into ${directory}: some minutes, once`);
      mkdirSync(directory, { recursive: true });
      const flags = ['-trimpath', '-ldflags', '-s -w'];
      await runToEnd('nice', ['-n', '10', 'go', 'install', ...flags, `helm.sh/helm/v4/cmd/helm@${version}`], {
        env: { ...process.env, GOBIN: directory, CGO_ENABLED: '0' },
      });
    }
    return new Helm(directory);
  }

  /** The chart's objects, as YAML. @throws Error in helm's words */
  template(values: Values = {}, kubeVersion = '1.36.3'): Promise<string> {
    const place = ['--namespace', namespace, '--kube-version', kubeVersion, '--skip-tests'];
    return this.run(['template', releaseName, chart, ...place], values);
  }

  lint(values: Values = {}): Promise<string> {
    return this.run(['lint', '--strict', chart], values);
  }

  /** Runs `helm …`, with a file of values for those of its commands that take one; what it printed. */
  run(parameters: readonly string[], values?: Values): Promise<string> {
    if (values === undefined) return runToEnd(this.#program, parameters);
    return runToEnd(this.#program, [...parameters, '--values', '-'], { input: JSON.stringify(values) });
  }
}
