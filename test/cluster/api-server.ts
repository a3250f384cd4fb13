import { ApiServer, freePort } from './harness/api-server.ts';
import { ClusterDirectory } from './harness/directory.ts';
import type { Kubectl } from './harness/kubectl.ts';
import { apiServerPrograms, buildPrograms } from './harness/programs.ts';
import { applySnapshotCrds } from './harness/snapshot-crds.ts';
import { untilTold } from './harness/waiting.ts';

/** A real Kubernetes API server with the snapshot CRDs: it takes and checks objects, and nothing comes of them. */
export interface StandaloneApiServer extends AsyncDisposable {
  readonly kubectl: Kubectl;
  /** For other programs that talk to it. */
  readonly kubeconfig: string;
}

/** Builds what is missing and starts it. Several at a time do not meet. */
export async function startApiServer(): Promise<StandaloneApiServer> {
  const programs = await buildPrograms(apiServerPrograms);
  const directory = await ClusterDirectory.make();
  try {
    const address = '127.0.0.1';
    const plan = { programs, address, port: await freePort(), serviceRange: '10.96.0.0/16', hasControllers: false };
    const server = await ApiServer.start(directory, plan);
    await applySnapshotCrds(server.kubectl);
    return {
      kubectl: server.kubectl,
      kubeconfig: server.kubeconfig('admin'),
      async [Symbol.asyncDispose]() {
        await server[Symbol.asyncDispose]();
        await directory[Symbol.asyncDispose]();
      },
    };
  } catch (error) {
    await directory[Symbol.asyncDispose]();
    throw error;
  }
}

if (import.meta.main) {
  await using server = await startApiServer();
  console.log(`export KUBECONFIG=${server.kubeconfig}\nCtrl-C ends it.`);
  await untilTold();
}
