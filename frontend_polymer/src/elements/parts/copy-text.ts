/** The clipboard is reserved for secure contexts; a plain http address still has the old way. */
export async function copyText(value: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(value);
    return true;
  } catch {
    const area = document.createElement('textarea');
    area.value = value;
    document.body.append(area);
    area.select();
    // eslint-disable-next-line @typescript-eslint/no-deprecated -- there is nothing else here
    const copied = document.execCommand('copy');
    area.remove();
    return copied;
  }
}
