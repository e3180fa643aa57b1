// The players of Gradio keep to the rule of one sound at a time, too: they play media elements, which stand nowhere on the page.

if (!HTMLMediaElement.prototype.labPlay) {
  let sounding = null;
  HTMLMediaElement.prototype.labPlay = HTMLMediaElement.prototype.play;
  HTMLMediaElement.prototype.play = function () {
    takeFloor(this);
    sounding = this;
    return this.labPlay();
  };
  document.addEventListener(FLOOR, ({ detail }) => detail !== sounding && sounding?.pause());
}
