import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { ContainerRuntime } from '../container-runtime.ts';
import { kubeletDirectory, type NodePlace } from '../directory.ts';
import { Kubelet } from '../kubelet.ts';
import { relay } from '../relay.ts';
import { untilTold } from '../waiting.ts';

/*
 * The node of a Kubernetes whose control plane runs outside of the virtual machine: containerd, the kubelet, and a way to the API
 * server under the address that Kubernetes tells pods. It says so when they are up, and stays until it is told to end.
 */

/** How the machine outside is called in here. */
const outside = '10.0.2.2';

export const nodePlanSchema = z.object({
  /** Of this machine's own disk. */
  directory: z.string(),
  programs: z.string(),
  kubeconfig: z.string(),
  nodeName: z.string(),
  apiServer: z.object({ address: z.string(), port: z.number(), outsidePort: z.number() }),
  /** OCI archives. */
  images: z.array(z.string()),
});
export type NodePlan = z.infer<typeof nodePlanSchema>;

if (import.meta.main) await beNode(nodePlanSchema.parse(JSON.parse(readFileSync(process.argv[2] ?? '', 'utf8'))));

async function beNode({ apiServer, directory, images, kubeconfig, nodeName, programs }: NodePlan): Promise<void> {
  const place: NodePlace = {
    cgroup: 'holdfast-node',
    join: (...parts) => join(directory, ...parts),
    makeDirectory: (...parts) => {
      mkdirSync(join(directory, ...parts), { recursive: true });
      return join(directory, ...parts);
    },
  };
  for (const [from, to] of [
    ['kubelet', kubeletDirectory],
    ['holdfast', '/var/lib/holdfast'],
  ] as const) {
    mkdirSync(to, { recursive: true });
    execFileSync('mount', ['--bind', place.makeDirectory(from), to]);
  }
  // What the whole machine may use of each, parts of it may use only if that is said (cgroups(7)).
  const controllers = readFileSync('/sys/fs/cgroup/cgroup.controllers', 'utf8').trim().split(' ');
  writeFileSync('/sys/fs/cgroup/cgroup.subtree_control', controllers.map((name) => `+${name}`).join(' '));
  await relay({ host: apiServer.address, port: apiServer.port }, { host: outside, port: apiServer.outsidePort });
  await using runtime = await ContainerRuntime.start({ programs, place });
  for (const archive of images) await runtime.importImage(archive);
  await using _kubelet = await Kubelet.start({
    ...{ programs, place, kubeconfig, nodeName },
    runtimeSocket: runtime.socket,
    rootDirectory: kubeletDirectory,
    // The API server comes to it from outside.
    address: '0.0.0.0',
    // Sidecars end after 30 s without their driver. All of them at once, every second, leave it no time to start.
    longestRestartPause: '60s',
  });
  console.log('the kubelet is ready');
  await untilTold();
}
