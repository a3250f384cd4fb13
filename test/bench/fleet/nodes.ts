import { writeFileSync } from 'node:fs';
import { z } from 'zod';
import { namespace } from '../../deploy/fleet-cluster.ts';
import { audience } from '../../fleet/support/api-double.ts';
import { forEach, type Kubernetes } from './kubernetes.ts';

const topologyKey = 'topology.holdfast.dev/node';
const pod = z.object({ metadata: z.object({ uid: z.string() }) });
const token = z.object({ status: z.object({ token: z.string() }) });

/** Longer than any run. */
const tokenSeconds = 6 * 3600;

/** What kubelets make of their nodes, with the driver's pod on each; its token is written to `tokenPath`. */
export async function addNodes(
  kubernetes: Kubernetes,
  nodes: readonly string[],
  tokenPath: (node: string) => string,
): Promise<void> {
  await forEach(nodes, 16, async (name) => {
    const drivers = [{ name: 'holdfast.csi.dev', nodeID: name, topologyKeys: [topologyKey] }];
    await kubernetes.create('/api/v1/nodes', {
      apiVersion: 'v1',
      kind: 'Node',
      metadata: { name, labels: { [topologyKey]: name } },
    });
    await kubernetes.create('/apis/storage.k8s.io/v1/csinodes', {
      apiVersion: 'storage.k8s.io/v1',
      kind: 'CSINode',
      metadata: { name },
      spec: { drivers },
    });
    const podName = `driver-${name}`;
    const { uid } = pod.parse(
      await kubernetes.create(`/api/v1/namespaces/${namespace}/pods`, {
        apiVersion: 'v1',
        kind: 'Pod',
        metadata: { name: podName },
        spec: {
          nodeName: name,
          serviceAccountName: 'holdfast-node',
          containers: [{ name: 'holdfast', image: 'localhost/holdfast' }],
        },
      }),
    ).metadata;
    const answer = await kubernetes.create(`/api/v1/namespaces/${namespace}/serviceaccounts/holdfast-node/token`, {
      apiVersion: 'authentication.k8s.io/v1',
      kind: 'TokenRequest',
      spec: {
        audiences: [audience],
        expirationSeconds: tokenSeconds,
        boundObjectRef: { apiVersion: 'v1', kind: 'Pod', name: podName, uid },
      },
    });
    writeFileSync(tokenPath(name), token.parse(answer).status.token);
  });
}
