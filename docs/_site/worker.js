// The search runs in a Worker, which browsers refuse to pages that were opened from a disk. There it gets a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super()
      const base = new URL(address, location.href)
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      ;(document.body || document.documentElement).append(this.frame)
      const inside = this.frame.contentWindow
      const say = data => this.dispatchEvent(new MessageEvent("message", { data }))
      inside.postMessage = say
      const load = name => new Promise((done, failed) => {
        const script = inside.document.createElement("script")
        script.src = new URL(name, base)
        script.onload = done
        script.onerror = failed
        inside.document.body.append(script)
      })
      inside.importScripts = (...names) => Promise.all(names.map(load))
      this.ready = load(base)
    }
    postMessage(data) {
      const inside = this.frame.contentWindow
      this.ready.then(() => inside.dispatchEvent(new inside.MessageEvent("message", { data })))
    }
    terminate() {
      this.frame.remove()
    }
  }
}
