import { join } from 'node:path';
import type { Kubectl } from './kubectl.ts';
import { moduleSource } from './programs.ts';

/** Teaches a cluster what snapshots and group snapshots are, as whoever runs a cluster does once. */
export async function applySnapshotCrds(kubectl: Kubectl): Promise<void> {
  const module = await moduleSource('github.com/kubernetes-csi/external-snapshotter/client/v8');
  const directory = join(module, 'config', 'crd');
  await kubectl.run(['apply', '--server-side', '--kustomize', directory]);
  await kubectl.run(['wait', '--for=condition=Established', '--timeout=60s', 'crd', '--all']);
}
