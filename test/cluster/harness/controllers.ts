import { join } from 'node:path';
import type { ApiServer, User } from './api-server.ts';
import { freePort } from './api-server.ts';
import { Daemon } from './daemon.ts';
import type { ClusterDirectory } from './directory.ts';

/** What makes things happen in a cluster: Kubernetes' controllers, its scheduler, and the snapshot controller. */
export class Controllers implements AsyncDisposable {
  readonly #daemons: readonly Daemon[];

  private constructor(daemons: readonly Daemon[]) {
    this.#daemons = daemons;
  }

  /** @param options.hasDistributedSnapshots what a snapshotter on each node wants of the snapshot controller */
  static async start(
    programs: string,
    directory: ClusterDirectory,
    server: ApiServer,
    { hasDistributedSnapshots = true }: { readonly hasDistributedSnapshots?: boolean } = {},
  ): Promise<Controllers> {
    const start = (name: string, user: User, parameters: readonly string[]) =>
      new Daemon({
        name,
        command: [join(programs, name), `--kubeconfig=${server.kubeconfig(user)}`, ...parameters],
        logFile: join(directory.makeDirectory('logs'), `${name}.log`),
      });
    const listening = async () => [
      '--bind-address=127.0.0.1',
      `--secure-port=${await freePort()}`,
      `--cert-dir=${directory.join('certificates')}`,
      '--leader-elect=false',
    ];
    return new Controllers([
      start('kube-controller-manager', 'system:kube-controller-manager', [
        ...(await listening()),
        '--use-service-account-credentials=true',
        `--service-account-private-key-file=${server.serviceAccountKey}`,
        `--root-ca-file=${server.certificate}`,
        `--flex-volume-plugin-dir=${directory.makeDirectory('volume-plugins')}`,
      ]),
      start('kube-scheduler', 'system:kube-scheduler', await listening()),
      start('snapshot-controller', 'admin', hasDistributedSnapshots ? ['--enable-distributed-snapshotting'] : []),
    ]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#daemons.map((daemon) => daemon[Symbol.asyncDispose]()));
  }
}
