"""LangGraph with its checkpoints in an embedded database: AWS's DynamoDB saver, in process.

Run it:  pip install langgraph langgraph-checkpoint-aws 'dynalsm[boto]'
         python examples/langgraph_memory.py
"""

from __future__ import annotations

import operator
import tempfile
from typing import Annotated, Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph_checkpoint_aws import DynamoDBSaver

import dynalsm


class State(TypedDict):
    said: Annotated[list[str], operator.add]


def answer(state: State) -> dict[str, Any]:
    return {"said": [f"you have said {len(state['said'])} things"]}


def build(db: dynalsm.Database) -> Any:
    """Return a graph that remembers its threads in `db`."""
    if not any(table.name == "checkpoints" for table in db.tables):
        db.create_table(
            TableName="checkpoints",
            KeySchema=[
                {"AttributeName": "PK", "KeyType": "HASH"},
                {"AttributeName": "SK", "KeyType": "RANGE"},
            ],
            AttributeDefinitions=[
                {"AttributeName": "PK", "AttributeType": "S"},
                {"AttributeName": "SK", "AttributeType": "S"},
            ],
            BillingMode="PAY_PER_REQUEST",
        )
    graph = StateGraph(State)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    graph.add_edge("answer", END)
    saver = DynamoDBSaver(table_name="checkpoints", session=dynalsm.boto3_session(db))
    return graph.compile(checkpointer=saver)


def main() -> None:
    thread = {"configurable": {"thread_id": "1"}}
    with tempfile.TemporaryDirectory() as directory:
        for turn in range(3):  # a process of its own each time, as far as the graph can tell
            with dynalsm.open(f"{directory}/memory.db") as db:
                graph = build(db)
                state = graph.invoke({"said": [f"turn {turn}"]}, thread)
        print(state["said"])
        assert state["said"][-1] == "you have said 5 things"


if __name__ == "__main__":
    main()
