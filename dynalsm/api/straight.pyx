"""The straight way: GetItem and Query as they mostly are, without detours.

A request that is beyond doubt valid needs none of the checks that find out what to tell about one
that is not. What is looked at here is enough to be sure; everything else answers None, and the
long way (items.py, query.py) starts from the beginning. So no message is made here, and whatever
is refused or answered in a special way is done there.

A Query takes the straight way when one with the same expressions, names, index and table has gone
the long way before: what that found out apart from the values is its plan.

Thread safety: plans do not change; those of a handle are kept in a dict, guarded by the GIL.
"""

from cpython.dict cimport PyDict_Size
from cpython.object cimport PyObject
from cython cimport final

from dynalsm._core.engine cimport Tree
from dynalsm.api.plan_values cimport PlanValues, chosen
from dynalsm.api.requests cimport encoded_item, flag, handle_of, member, names_key
from dynalsm.expressions.compiled cimport Program, judge_of
from dynalsm.model.handles cimport TableHandle
from dynalsm.model.keys cimport StoredKeys
from dynalsm.model.pages cimport CHUNK_ITEMS, Page, Taker, fill_page, new_page

from dynalsm.api.replies import settle

cdef enum:
    MAX_LIMIT = 0x7FFFFFFF       # larger ones are looked at more closely


# ---- GetItem ------------------------------------------------------------------------------------

def get_item(database, request, form):
    """Answer a plain GetItem; None when it has to take the long way."""
    cdef Py_ssize_t found = 0
    cdef PyObject* key
    cdef TableHandle handle
    cdef bytes tree_key
    cdef bytes stored
    cdef int kind = form.kind
    cdef int is_consistent = 0
    if type(request) is not dict:
        return None
    key = member(<dict>request, "Key", &found)
    if key == NULL or type(<object>key) is not dict:
        return None
    handle = handle_of(database, <dict>request, &found)
    if handle is None:
        return None
    if PyDict_Size(request) != found:
        is_consistent = flag(<dict>request, "ConsistentRead", False, &found)
        if PyDict_Size(request) != found or is_consistent < 0:
            return None
    tree_key = key_of(handle, <dict>key, kind)
    if tree_key is None:
        return None
    if type(handle.tree) is Tree:
        stored = (<Tree>handle.tree).find(tree_key, None, True)
    else:
        stored = handle.tree.get(tree_key)
    if is_consistent and database.must_wait:
        settle(database, database.writes.seqno_near(tree_key))
    if stored is None:
        return {}
    return {"Item": handle.keys.decode(tree_key, stored, kind)}


cdef bytes key_of(TableHandle handle, dict key, int form):
    """The tree key; None when something is wrong with it."""
    cdef bytes item
    cdef bytes tree_key
    try:
        tree_key = handle.keys.plain_key(key, form)
        if tree_key is not None:
            return tree_key
        item = encoded_item(key, form)
        handle.keys.check_key(item)
        return handle.keys.tree_key(item)
    except (ValueError, TypeError):
        return None              # the long way finds it again, and says what it is


# ---- Query --------------------------------------------------------------------------------------

@final
cdef class QueryPlan:
    """What a Query comes to, apart from its values; belongs to a handle.

    What the key conditions are and the filter's program take their values from `values`, by place.
    """

    cdef StoredKeys source_keys
    cdef object tree
    cdef PlanValues values
    cdef tuple hashes
    cdef tuple equalities
    cdef str operator
    cdef tuple operands
    cdef Program program             # of the filter; or None
    cdef tuple program_slots
    cdef bint is_single
    cdef bint may_be_consistent

    def __init__(
        self, source, PlanValues values not None, *, hashes, equalities, operator, operands,
        filter, bint is_single, bint may_be_consistent
    ):
        self.source_keys = source.keys
        self.tree = source.tree
        self.values = values
        self.hashes = tuple(hashes)
        self.equalities = tuple(equalities)
        self.operator = operator
        self.operands = tuple(operands)
        self.program, slots = filter or (None, ())
        self.program_slots = tuple(slots)
        self.is_single = is_single
        self.may_be_consistent = may_be_consistent

    cdef tuple bounds(self, list values):
        """The range of tree keys; None when a value cannot be in a key."""
        try:
            return self.source_keys.range_of(
                self.source_keys.prefix_of(chosen(values, self.hashes)),
                self.operator,
                chosen(values, self.operands),
                chosen(values, self.equalities),
            )
        except ValueError:
            return None

    cdef Taker taker(self, list values, int form, object limit_bytes):
        """What is done with the entries."""
        cdef Taker taker = Taker.__new__(Taker)
        taker.page = new_page(limit_bytes)
        taker.keys = self.source_keys
        taker.form = form
        taker.wants_items = True
        if self.program is not None:
            taker.judge = judge_of(self.program, values, self.program_slots)
        return taker


def query(database, request, form):
    """Answer a Query that a plan is there for; None when it has to take the long way."""
    cdef Py_ssize_t found = 0
    cdef TableHandle handle
    cdef QueryPlan plan
    cdef PyObject* given
    cdef PyObject* limit_member
    cdef Py_ssize_t limit = -1
    cdef int is_forward = 1
    cdef int is_consistent = 0
    cdef tuple key
    if type(request) is not dict:
        return None
    key = read_plan_key(<dict>request, &found)
    if key is None:
        return None
    given = member(<dict>request, "ExpressionAttributeValues", &found)
    if given == NULL or type(<object>given) is not dict:
        return None
    handle = handle_of(database, <dict>request, &found)
    if handle is None:
        return None
    if PyDict_Size(request) != found:
        is_forward = flag(<dict>request, "ScanIndexForward", True, &found)
        is_consistent = flag(<dict>request, "ConsistentRead", False, &found)
        limit_member = member(<dict>request, "Limit", &found)
        if limit_member != NULL:
            if type(<object>limit_member) is not int or not 0 < <object>limit_member < MAX_LIMIT:
                return None
            limit = <object>limit_member
        if PyDict_Size(request) != found or is_forward < 0 or is_consistent < 0:
            return None
    plan = handle.plans.get(key)
    if plan is None or (is_consistent and not plan.may_be_consistent):
        return None
    return run_query(
        database, plan, <dict>given, form, limit, not is_forward,
        is_consistent and database.must_wait
    )


cdef object run_query(
    database, QueryPlan plan, dict given, form, Py_ssize_t limit, bint reverse, bint must_settle
):
    cdef list values = plan.values.take(given, form.kind)
    cdef tuple bounds = None if values is None else plan.bounds(values)
    cdef Taker taker
    cdef Page page
    cdef object snapshot = None
    if bounds is None:
        return None              # the long way finds it again, and says what it is
    taker = plan.taker(values, form.kind, database.settings.limit_page_bytes)
    page = taker.page
    try:
        if must_settle:
            snapshot = database.engine.snapshot()
        fill_page(
            taker, plan.source_keys, plan.tree, bounds[0], bounds[1], reverse, limit, None,
            snapshot, CHUNK_ITEMS
        )
        if must_settle:
            settle(database, snapshot.seqno)
    finally:
        if snapshot is not None:
            snapshot.close()
    reply = {"Items": page.items, "Count": page.count, "ScannedCount": page.scanned}
    if page.last_key is not None and not plan.is_single:
        reply["LastEvaluatedKey"] = form.decode_item(plan.source_keys.key_item(page.last_key))
    return reply


cdef tuple read_plan_key(dict request, Py_ssize_t* found):
    """What a plan for this request is kept under; None when there can be none."""
    cdef PyObject* text = member(request, "KeyConditionExpression", found)
    cdef PyObject* filter_text = member(request, "FilterExpression", found)
    cdef PyObject* names
    cdef PyObject* index
    cdef tuple spelled = None
    if text == NULL or type(<object>text) is not str:
        return None
    if filter_text != NULL and type(<object>filter_text) is not str:
        return None
    names = member(request, "ExpressionAttributeNames", found)
    index = member(request, "IndexName", found)
    if names == NULL and index == NULL:
        return <object>text, None if filter_text == NULL else <object>filter_text
    if index != NULL and type(<object>index) is not str:
        return None
    if names != NULL:
        spelled = names_key(<object>names)
        if spelled is None:
            return None
    return (
        <object>text,
        None if filter_text == NULL else <object>filter_text,
        None if index == NULL else <object>index,
        spelled,
    )


def plan_key(request):
    """Return what a plan for this request is kept under; None when there can be none."""
    cdef Py_ssize_t found = 0
    return read_plan_key(<dict>request, &found) if type(request) is dict else None
