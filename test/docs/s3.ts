import { copyFileSync, existsSync, mkdirSync, readdirSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { runToEnd } from '../cluster/harness/command.ts';
import { Daemon } from '../cluster/harness/daemon.ts';
import { makeResticImage } from '../cluster/harness/debian.ts';

const version = '3.7.1';
/** As docs/guides/backup-to-s3.md names it. */
export const s3Name = 's3.example.org';

/** The store of the guide on backups: s3rver, from npm, which is installed into the user's cache the first time. */
export class S3Server implements AsyncDisposable {
  readonly #daemon: Daemon;
  readonly #directory: string;

  private constructor(daemon: Daemon, directory: string) {
    this.#daemon = daemon;
    this.#directory = directory;
  }

  /** @param directory for its files @param address where it is, at port 443 */
  static async start(directory: string, address: string): Promise<S3Server> {
    const packages = join(process.env['XDG_CACHE_HOME'] || join(homedir(), '.cache'), 'holdfast', `s3rver-${version}`);
    if (!existsSync(join(packages, 'node_modules', 's3rver'))) {
      mkdirSync(packages, { recursive: true });
      const quiet = ['--no-audit', '--no-fund', '--ignore-scripts'];
      await runToEnd('npm', ['install', '--prefix', packages, ...quiet, `s3rver@${version}`], { timeoutMs: 300_000 });
    }
    mkdirSync(join(directory, 'buckets'), { recursive: true });
    const names = ['-subj', `/CN=${s3Name}`, '-addext', `subjectAltName=DNS:${s3Name}`];
    const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-keyout', 'key.pem'];
    await runToEnd('openssl', ['req', '-x509', ...key, '-out', 'certificate.pem', '-days', '2', ...names], {
      cwd: directory,
    });
    const daemon = new Daemon({
      name: 's3rver',
      command: [process.execPath, join(import.meta.dirname, 's3-child.ts'), packages, address, directory],
      logFile: join(directory, 's3rver.log'),
    });
    await daemon.ready(() => runToEnd('bash', ['-c', `exec 3<>/dev/tcp/${address}/443`]).then(() => undefined));
    return new S3Server(daemon, directory);
  }

  /** The image of restic, which trusts this server as others trust the authorities of their system; the archive. */
  image(directory: string): Promise<string> {
    const certificate = join(this.#directory, 'certificate.pem');
    return makeResticImage(directory, 'docker.io/restic/restic:0.14.0', (path) => copyFileSync(certificate, path));
  }

  /** Names of all objects in the bucket. */
  objects(): string[] {
    return readdirSync(join(this.#directory, 'buckets', 'backup'), { recursive: true, encoding: 'utf8' });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#daemon.kill();
  }
}
