/*
 * publish_context: what ControllerPublishVolume tells the node that has the volume next.
 */

const firstUseKey = 'firstUse';

/** No other node ever had the volume. */
export const firstUseContext: Readonly<Record<string, string>> = { [firstUseKey]: 'true' };

export function isFirstUse(context: Readonly<Record<string, string>>): boolean {
  return context[firstUseKey] === 'true';
}
