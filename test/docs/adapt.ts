import type { Cluster } from '../cluster/harness/cluster.ts';

const policy = 'holdfast-docs';

/**
 * What our one machine differs in from a reader's cluster, done by the API server itself, so that the commands stay as they
 * are: pods have no network here, so the driver's go on that of the machine; and its data belongs into the cluster's directory.
 */
export async function adaptTo({ directory, kubectl }: Cluster): Promise<void> {
  const data = directory.join('holdfast');
  const patch = [
    'JSONPatch{op: "add", path: "/spec/template/spec/hostNetwork", value: true}',
    'JSONPatch{op: "test", path: "/spec/template/spec/volumes/2/name", value: "data"}',
    `JSONPatch{op: "replace", path: "/spec/template/spec/volumes/2/hostPath/path", value: "${data}"}`,
  ];
  const rule = {
    apiGroups: ['apps'],
    apiVersions: ['v1'],
    operations: ['CREATE', 'UPDATE'],
    resources: ['daemonsets'],
  };
  await kubectl.apply([
    {
      apiVersion: 'admissionregistration.k8s.io/v1',
      kind: 'MutatingAdmissionPolicy',
      metadata: { name: policy },
      spec: {
        reinvocationPolicy: 'Never',
        failurePolicy: 'Fail',
        matchConstraints: { resourceRules: [rule] },
        matchConditions: [{ name: 'ours', expression: 'object.metadata.name == "holdfast"' }],
        mutations: [{ patchType: 'JSONPatch', jsonPatch: { expression: `[${patch.join(', ')}]` } }],
      },
    },
    {
      apiVersion: 'admissionregistration.k8s.io/v1',
      kind: 'MutatingAdmissionPolicyBinding',
      metadata: { name: policy },
      spec: { policyName: policy },
    },
  ]);
}
