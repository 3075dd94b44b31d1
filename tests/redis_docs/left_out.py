"""Examples in the documents that no server follows: the document, the example, and the reason why it is not run
unchanged.

* introduction, `XAUTOCLAIM ... 0-0 COUNT 1 => cursor 1526569498055-0`: the cursor is the next pending ID,
  1526569506935-0, and since 7.0 a list of deleted IDs follows; run with these.
* introduction, `XAUTOCLAIM ... => two elements`: since 7.0 a third one lists deleted IDs; run with it.
* introduction, `XINFO STREAM without the counters`: fields came later; those shown are compared.
* introduction, `XINFO HELP's lines`: prose that each server words itself; the subcommands are compared.
* introduction, `XREAD BLOCK 0 STREAMS mystream $`: shows no reply; run with the entry that ends the wait.
* introduction, `the Ruby consumer`: a program; its two ways to read are the steps around it.
* documentation, `XAUTOCLAIM race:italy italy_riders Lora 60000 (1692632662819-0 COUNT 1 => 1692632647899-0`: the ID
  shown lies before the start that is asked for; run from the beginning.
* documentation, `XAUTOCLAIM ... => two elements`: since 7.0 a third one lists deleted IDs; run with it.
* documentation, `XREAD ... (nil)`: nil is the null array in RESP2; run with that.
* documentation, `XINFO HELP's lines`: as for the introduction.
* specification, `XREAD-GROUP GROUP mygroup NAME c-1234 ...`: became XREADGROUP GROUP mygroup c-1234; run so.
* specification, `XGROUP SETID mystream 1507282666292-0`: names no group; run with groupname before the ID.
* specification, `XACK mystream mygroup c-1234 ID ...`: takes no consumer; run without it.
* specification, `XGROUP PENDING / GET-PENDING`: became XPENDING, with other replies; run so.
* specification, `XGROUP CLAIM`: became XCLAIM, which answers with entries, and with IDs after JUSTID; run so.
* specification, `XGROUP DEL / -ERR group deleted`: became XGROUP DESTROY, with other error texts; run so.
* specification, `XGROUP DEL-CONSUMER, XGROUP CONSUMERS`: became XGROUP DELCONSUMER and XINFO CONSUMERS; run so.
* specification, `consumers are reclaimed after some minutes`: was not built.
"""
