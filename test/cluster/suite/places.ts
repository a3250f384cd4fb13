import { Cluster } from '../harness/cluster.ts';
import { Fleet } from '../harness/fleet/fleet.ts';
import type { Kubectl } from '../harness/kubectl.ts';
import { leftovers } from '../harness/leftovers.ts';

/** A Kubernetes with our driver, where the suite is run. */
export interface SuitePlace extends AsyncDisposable {
  readonly hasOneNode: boolean;
  readonly kubectl: Kubectl;
  /** With which an administrator talks to it. */
  readonly kubeconfig: string;
  makeDirectory(name: string): string;
  /** On each node. */
  importImage(archive: string): Promise<void>;
  /** What is left of volumes and snapshots, a line each. */
  leftovers(): Promise<string[]>;
}

/** One node, with the sidecars beside the driver. */
export async function startOneNode(): Promise<SuitePlace> {
  const cluster = await Cluster.start();
  try {
    // The suite makes contents of snapshots by hand, without the label that sidecars on several nodes ask for.
    await cluster.driver.install('one');
  } catch (error) {
    await cluster[Symbol.asyncDispose]();
    throw error;
  }
  const { directory, driver, kubectl, runtime, server } = cluster;
  return {
    hasOneNode: true,
    kubectl,
    kubeconfig: server.kubeconfig('admin'),
    makeDirectory: (name) => directory.makeDirectory(name),
    importImage: (archive) => runtime.importImage(archive),
    leftovers: () => leftovers(kubectl, driver),
    [Symbol.asyncDispose]: () => cluster[Symbol.asyncDispose](),
  };
}

/** Three nodes, with the controller. */
export async function startFleet(): Promise<SuitePlace> {
  const fleet = await Fleet.start();
  try {
    await fleet.driver.install();
    await fleet.driver.linked();
  } catch (error) {
    await fleet[Symbol.asyncDispose]();
    throw error;
  }
  const { kubeconfig, kubectl, nodes } = fleet;
  return {
    hasOneNode: false,
    kubectl,
    kubeconfig,
    makeDirectory: (name) => fleet.makeDirectory(name),
    importImage: (archive) => fleet.importImage(archive),
    leftovers: () => leftovers(kubectl, ...nodes),
    [Symbol.asyncDispose]: () => fleet[Symbol.asyncDispose](),
  };
}
