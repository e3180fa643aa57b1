"""The served page as a program meets it that keeps to no rule: any value for any endpoint, named or not, through the queue."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from uuid import uuid4

import httpx

PATIENCE_SECONDS = 60
EMPTY: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Answer:
    """How an event ended: `told` is the error's sentence, `data` what came instead."""

    told: str | None
    data: object = None


class Raw:
    """A client of the page at `address` that sends whatever it is given, and waits no longer than its patience."""

    def __init__(self, address: str) -> None:
        self.http = httpx.Client(base_url=address, timeout=PATIENCE_SECONDS)
        config = self.http.get("/config").json()
        self.components = {component["id"]: component for component in config["components"]}
        self.endpoints = {each["api_name"]: each for each in config["dependencies"] if each["backend_fn"]}

    @property
    def public(self) -> list[str]:
        return [name for name, each in self.endpoints.items() if each["api_visibility"] == "public"]

    def inputs(self, name: str) -> list[dict[str, object]]:
        return [self.components[each] for each in self.endpoints[name]["inputs"]]

    def usual(self, name: str) -> list[object]:
        """What the page would send as it was opened."""
        return [component["props"].get("value") for component in self.inputs(name)]

    def join(self, name: str, values: Sequence[object], event: object, session: str, visitor: str = "") -> httpx.Response:
        """Queue a job. `visitor` is its address, as a proxy on this computer would tell it."""
        body = {"fn_index": self.endpoints[name]["id"], "data": list(values), "event_data": event, "trigger_id": None}
        # `json` and not httpx: what is sent may be no valid JSON (NaN), or half a character.
        return self.post(
            "queue/join", json.dumps(body | {"session_hash": session}), {"x-forwarded-for": visitor} if visitor else {}
        )

    def ask(
        self, name: str, values: Sequence[object], event: object = None, session: str | None = None, visitor: str = ""
    ) -> Answer:
        session = session or uuid4().hex
        joined = self.join(name, values, event, session, visitor)
        if joined.status_code != 200:
            return Answer(joined.text)
        with self.http.stream("GET", "/gradio_api/queue/data", params={"session_hash": session}) as lines:
            for line in lines.iter_lines():
                message = json.loads(line[5:]) if line.startswith("data:") else {}
                if message.get("msg") == "process_completed" and message["event_id"] == joined.json()["event_id"]:
                    output = message["output"]
                    return Answer(None, output["data"]) if message["success"] else Answer(str(output["error"]))
        raise AssertionError("the server hung up")

    def post(self, path: str, content: str | bytes, headers: Mapping[str, str] = EMPTY) -> httpx.Response:
        headers = {"content-type": "application/json", **headers}
        return self.http.post(f"/gradio_api/{path}", content=content, headers=headers)

    def upload(self, name: str, content: bytes) -> dict[str, object]:
        """The uploaded file, as a component would send it."""
        (path,) = self.http.post("/gradio_api/upload", files={"files": (name, content)}).json()
        return file_at(path)


def file_at(path: str) -> dict[str, object]:
    return {"path": path, "meta": {"_type": "gradio.FileData"}}
